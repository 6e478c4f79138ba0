"""examples/bound.py: what docs/bonuses/density.md and cvae.md say of the gap between two modes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bound.py"


@pytest.mark.slow
def test_only_a_mixture_and_the_calibrated_bound_see_the_gap_between_two_modes(tmp_path: Path):
    """The bonus over its mean on recorded actions; the pages have 0.1, 0.8, 0.6, 6.8 and 9.5 in the gap, after longer fits."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_"))}
    command = [sys.executable, str(EXAMPLE), "--out", str(tmp_path / "bound.png"), "--steps", "4000"]
    said = subprocess.run(command, env=usual, check=True, capture_output=True, text=True).stdout
    gap = {line[:17].strip(): float(re.search(r"gap (\S+),", line)[1]) for line in said.splitlines()}
    assert gap.keys() == {"reconstruction", "bound", "calibrated bound", "one Gaussian", "five Gaussians"}
    assert max(gap["reconstruction"], gap["bound"], gap["one Gaussian"]) < 1.5
    assert min(gap["calibrated bound"], gap["five Gaussians"]) > 3.0
    assert (tmp_path / "bound.png").read_bytes().startswith(b"\x89PNG")
