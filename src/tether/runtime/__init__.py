"""Policies without JAX: NumPy alone reads a policy file and acts, and starts in milliseconds.

>>> from tether.runtime import load_policy
>>> policy = load_policy("policy.safetensors")                                   # doctest: +SKIP
>>> action, familiarity = policy.act(observation, with_familiarity=True)         # doctest: +SKIP

file.py          policy files, and `Policy`
acting.py        how a policy is asked, whoever runs it: actions, familiarity, fallbacks, warnings
experience.py    what the policy's data was like: quantiles of the bonus, ranges, recorded pairs
observations.py  what may be given to it
actors.py        every kind of policy; bonuses.py: every bonus; layers.py: what both are made of; noise.py: the one draw they need
"""

from tether.runtime.acting import OutsideRange, Unfamiliar
from tether.runtime.experience import Experience
from tether.runtime.file import Policy, load_policy

__all__ = ["Experience", "OutsideRange", "Policy", "Unfamiliar", "load_policy"]
