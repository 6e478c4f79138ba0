"""examples/along_the_latent.py: what docs/bonuses/cvae.md says of error and bound along the latent."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from pages import ROOT, tables_of

EXAMPLES = ROOT / "examples"
(TABLE,) = [table for table in tables_of("docs/bonuses/cvae.md") if "decoded from that z" in table[0]]


def test_the_error_has_a_flat_floor_and_the_bound_its_lowest_place_in_the_gap(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import along_the_latent as example

    latent = example.fit(example.recorded(), nat=0.25, steps=1_000)
    places = np.array(list(example.PLACES.values()))
    (before, broad, gap, narrow, beyond), z = latent.charged(places, "reconstruction"), latent.encoded(places)
    assert np.all(np.diff(z) > 0)
    assert gap < 2 * min(broad, narrow)
    charged = latent.charged(places, "bound")
    assert charged[2] == min(charged)
    assert charged[0] - charged[1] > before - broad
    assert charged[4] - charged[3] > beyond - narrow


@pytest.mark.slow
def test_the_table_is_what_the_example_prints(tmp_path):
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_"))}
    command = [sys.executable, str(EXAMPLES / "along_the_latent.py"), "--out", str(tmp_path / "latent.png")]
    said = subprocess.run(command, env=usual, check=True, capture_output=True, text=True).stdout
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines()]
    assert [line[:2] for line in found] == [line[:2] for line in TABLE[1:]]
    for line, told in zip(found, TABLE[1:], strict=True):  # another processor, other last digits: as three seeds differ
        np.testing.assert_allclose([float(cell) for cell in line[2:]], [float(cell) for cell in told[2:]], rtol=0.2, atol=0.03)
    assert (tmp_path / "latent.png").read_bytes().startswith(b"\x89PNG")
