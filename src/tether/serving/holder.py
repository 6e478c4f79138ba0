"""The policy that is served. A new file in its place is taken over between two requests; one that cannot be used is not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tether.errors import TetherError
from tether.runtime import Policy, load_policy
from tether.runtime.acting import columns_of


@dataclass
class Held:
    """The policy and the file it came from. Whoever answers takes `policy` once: a swap changes nothing under them."""

    path: Path
    policy: Policy
    stamp: tuple[int, ...]
    swaps: int = 0
    failures: int = 0
    trouble: str | None = None  # why the file that is there now is not the one that is served

    def look(self) -> str | None:
        """Take over the file if it has changed. What is to be told of it, if anything."""
        try:
            stamp = stamp_of(self.path)
        except OSError:
            return self._refused(self.stamp, f"{self.path} is not there any more")
        if stamp == self.stamp:
            return None
        try:
            policy = load_policy(self.path)
            self._check(policy)
        except TetherError as error:
            return self._refused(stamp, str(error))
        self.policy, self.stamp, self.trouble = policy, stamp, None
        self.swaps += 1
        return f"{self.path} has changed and is served from now on"

    def _refused(self, stamp: tuple[int, ...], reason: str) -> str | None:
        if reason == self.trouble:
            return None
        self.stamp, self.trouble = stamp, reason
        self.failures += 1
        return f"the policy of before stays: {reason}"

    def _check(self, new: Policy) -> None:
        """Clients must not notice but by other actions: the same observations in, the same kind of actions out."""
        old = self.policy
        if new.spec != old.spec or columns_of(new) != columns_of(old):
            raise TetherError(f"{self.path} is now of another task than what is served; restart to serve it")


def hold(path: Path) -> Held:
    """Of a run folder or a policy file."""
    file = path / "policy.safetensors" if path.is_dir() else path
    policy = load_policy(path)
    return Held(file, policy, stamp_of(file))


def stamp_of(path: Path) -> tuple[int, ...]:
    """What changes when a file is replaced or written to."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size
