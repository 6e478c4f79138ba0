"""The one error that means "what you gave me does not fit": shown as one message, exit code 2, no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TetherError(Exception):
    """A mistake in the input or the surroundings that the user can mend. The message says what, where and what would do."""


def did_you_mean(given: str, known: Iterable[str], prefix: str = "") -> str:
    """`; did you mean X?` for the nearest known names, else the list of what there is.

    `prefix` stands before each in the message and takes no part in the comparison, in which it would make all names alike.
    """
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=3, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(prefix + name for name in near)}?"
    return f"; there is: {', '.join(prefix + name for name in names)}" if names else ""
