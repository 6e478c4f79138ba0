"""What acts: the kinds of policies, by the name that a policy file has for them, and the file itself.

base.py           how a policy describes itself and is rebuilt, and how it is compiled
file.py           `Policy`: a policy to ship, with what is known about it; `tether.runtime` runs the same file without JAX
"""

from tether.policies.base import PARTS, act, describe, rebuilt
from tether.policies.best_of_samples import BestOfSamples
from tether.policies.deterministic import Deterministic
from tether.policies.file import Policy, load_policy
from tether.policies.gaussian import SquashedGaussian
from tether.policies.greedy import Greedy
from tether.policies.tethered import Tethered

POLICIES = {
    "deterministic": Deterministic,
    "greedy": Greedy,
    "squashed-gaussian": SquashedGaussian,
    "best-of-samples": BestOfSamples,
    "tethered": Tethered,
}
PARTS.update(POLICIES)

__all__ = [
    "PARTS",
    "POLICIES",
    "Policy",
    "act",
    "describe",
    "load_policy",
    "rebuilt",
    *(kind.__name__ for kind in POLICIES.values()),
]
