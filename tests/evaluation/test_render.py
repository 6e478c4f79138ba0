"""An episode becomes a small GIF; where nothing can draw, that is said."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tether.errors import TetherError
from tether.evaluation.render import SIDE, choose_backend, record_episode
from tether.evaluation.rollout import evaluate
from tether.types import Spec, discrete_spec

PENDULUM = Spec(9, (-1.0,), (1.0,))
ENV_ID = "InvertedDoublePendulum-v5"


def _still(observations: np.ndarray) -> np.ndarray:
    return np.zeros((len(observations), 1), dtype=np.float32)


def test_record_episode(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")  # restored afterwards
    monkeypatch.delenv("MUJOCO_GL")
    try:
        choose_backend()
    except TetherError as error:
        pytest.skip(str(error))
    path = tmp_path / "films" / "fall.gif"
    total = record_episode(_still, ENV_ID, PENDULUM, path, seed=3)
    alone = evaluate(_still, PENDULUM, ENV_ID, episodes=1, seed=3)
    np.testing.assert_allclose(total, alone.returns[0])
    with Image.open(path) as film:
        assert film.format == "GIF"
        assert film.size == (SIDE, SIDE)
        first = np.asarray(film.convert("RGB"), dtype=float)
        film.seek(film.n_frames - 1)
        assert film.n_frames > 1
        assert np.abs(np.asarray(film.convert("RGB"), dtype=float) - first).max() > 50  # it fell
    assert path.stat().st_size < 1_000_000


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(TetherError, match=r"episodes are recorded as GIF; give a name that ends in \.gif"):
        record_episode(_still, ENV_ID, PENDULUM, tmp_path / "fall.mp4")


def test_where_nothing_draws_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    with pytest.raises(TetherError, match=r"tried disabled.*apt install libegl1.*libosmesa6"):
        record_episode(_still, ENV_ID, PENDULUM, tmp_path / "fall.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("env_id", "spec", "size"),
    [("CartPole-v1", discrete_spec(4, 2), (240, 160)), ("MinAtar/Breakout-v1", discrete_spec(400, 3, (10, 10, 4)), (240, 240))],
)
def test_games_are_filmed_without_opengl(env_id: str, spec: Spec, size: tuple[int, int], tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "none at all")
    first = np.eye(spec.action_size)[:1]
    record_episode(lambda observation: first, env_id, spec, tmp_path / "film.gif", seed=1)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.size == size
        assert film.n_frames > 2
        assert len(film.convert("RGB").getcolors()) > 2  # not black
