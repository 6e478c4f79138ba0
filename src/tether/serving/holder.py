"""The policy that is served. A new file in its place is taken over between two requests; one that cannot be used is not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tether.errors import TetherError
from tether.runtime import Policy, load_policy
from tether.runtime.acting import experience_of


@dataclass
class Held:
    """The policy and the file it came from. Whoever answers takes `policy` once: a swap changes nothing under them."""

    path: Path
    policy: Policy
    stamp: tuple[int, ...]
    threshold: float | None = None  # of the fallback, if there is one: every policy that is served must be able to tell when
    swaps: int = 0
    failures: int = 0
    trouble: str | None = None  # why the file that is there now is not the one that is served

    def look(self) -> str | None:
        """Take over the file if it has changed. What is to be told of it, if anything."""
        try:
            stamp = stamp_of(self.path)
        except OSError:
            return self.refused(f"{self.path} is not there any more")
        if stamp == self.stamp:
            return None
        try:
            policy = load_policy(self.path)
            self._check(policy)
        except TetherError as error:
            return self.refused(str(error), stamp)
        self.policy, self.stamp, self.trouble = policy, stamp, None
        self.swaps += 1
        return f"{self.path} has changed and is served from now on"

    def refused(self, reason: str, stamp: tuple[int, ...] = ()) -> str | None:
        """What is to be told, if it is not what was told last. `stamp` is that of the file which need not be looked at again."""
        if reason == self.trouble:
            return None
        self.stamp, self.trouble = stamp, reason
        self.failures += 1
        return f"the policy of before stays: {reason}"

    def _check(self, new: Policy) -> None:
        """Clients must not notice but by other actions: the same observations in, the same kind of actions out."""
        old = self.policy
        if new.spec != old.spec or new.about.get("columns") != old.about.get("columns"):
            raise TetherError(f"{self.path} is now of another task than what is served; restart to serve it")
        if old.experience is not None and new.experience is None:
            raise TetherError(
                f"{self.path} cannot say how familiar an observation is, as what is served can; restart to serve it"
            )
        if self.threshold is not None:
            experience_of(new).check_threshold(self.threshold)


def hold(path: Path, threshold: float | None = None) -> Held:
    """Of a run folder or a policy file; with the threshold of a fallback, one that can tell when to fall back."""
    file = path / "policy.safetensors" if path.is_dir() else path
    stamp = stamp_of(file) if file.exists() else ()  # before it is read: a file that comes while it is read is another one
    policy = load_policy(path)
    if threshold is not None:
        experience_of(policy).check_threshold(threshold)
    return Held(file, policy, stamp, threshold)


def stamp_of(path: Path) -> tuple[int, ...]:
    """What changes when a file is replaced or written to."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size
