"""The paper's 24 tasks by name: what each stands for, where its file comes from, and how a file on this machine is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tether.config import make_config
from tether.data import load_dataset
from tether.data.named.catalogue import data_folder, find_known, known_datasets
from tether.errors import TetherError

# The paper's table of results, row by row.
PAPER = [
    *(
        f"{task}-{level}"
        for level in ("random", "medium", "medium-replay", "medium-expert")
        for task in ("halfcheetah", "walker2d", "hopper")
    ),
    *(f"{task}-{level}" for level in ("human", "cloned", "expert") for task in ("pen", "hammer", "door", "relocate")),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_every_task_of_the_paper_in_every_version():
    versions = {
        name: ("v0", "v1") if name.split("-")[0] in ("pen", "hammer", "door", "relocate") else ("v0", "v1", "v2")
        for name in PAPER
    }
    assert list(known_datasets()) == [f"{name}-{version}" for name in PAPER for version in versions[name]]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("hopper-medium-v2", "gym_mujoco_v2/hopper_medium-v2.hdf5"),
        ("walker2d-medium-replay-v1", "gym_mujoco_v1/walker2d_medium_replay-v1.hdf5"),
        ("halfcheetah-medium-expert-v0", "gym_mujoco/halfcheetah_medium_expert.hdf5"),
        ("hopper-medium-replay-v0", "gym_mujoco/hopper_mixed.hdf5"),
        ("walker2d-medium-replay-v0", "gym_mujoco/walker_mixed.hdf5"),
        ("walker2d-random-v0", "gym_mujoco/walker2d_random.hdf5"),
        ("pen-human-v1", "hand_dapg_v1/pen-human-v1.hdf5"),
        ("door-human-v0", "hand_dapg/door-v0_demos_clipped.hdf5"),
        ("hammer-cloned-v0", "hand_dapg/hammer-demos-v0-bc-combined.hdf5"),
        ("relocate-expert-v0", "hand_dapg/relocate-v0_expert_clipped.hdf5"),
    ],
)
def test_files_are_where_d4rl_lists_them(name, file):
    """Addresses as in d4rl/infos.py."""
    assert known_datasets()[name].url == f"https://rail.eecs.berkeley.edu/datasets/offline_rl/{file}"


@pytest.mark.parametrize(
    ("name", "env_id", "horizon", "scores"),
    [
        ("walker2d-medium-v2", "Walker2d-v4", 1000, (1.629008, 4592.3)),
        ("d4rl/pen-human-v1", "AdroitHandPen-v1", 100, (96.262799, 3076.8331017826877)),
        ("D4RL/relocate-expert-v0", "AdroitHandRelocate-v1", 200, (-6.425911, 4233.877797728884)),
    ],
)
def test_a_name_stands_for_its_task(name, env_id, horizon, scores):
    known = find_known(name)
    assert known is not None
    task = known.task
    assert (task.env_ids[0], task.horizon, (task.score_0, task.score_100)) == (env_id, horizon, scores)


@pytest.mark.parametrize("name", ["hopper-medium", "hopper-medium-v3", "pen-human-v2", "hopper_medium-v2", "ant-medium-v2", ""])
def test_other_names_are_not_known(name):
    assert find_known(name) is None


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("TETHER_DATA", "~/sets")
    assert data_folder() == Path.home() / "sets"
    monkeypatch.delenv("TETHER_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "tether" / "data"


def test_a_name_without_a_file_says_how_to_get_it(folder):
    with pytest.raises(TetherError) as caught:
        load_dataset("d4rl/hopper-medium-v2")
    place = folder / "hopper-medium-v2.hdf5"
    expected = f"hopper-medium-v2 is not on this machine; tether data download hopper-medium-v2, or put its file at {place}"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("name", "file", "env_id", "weights"),
    [
        ("hopper-medium-v0", "hopper_medium", "Hopper-v4", (5.0, 1.0)),
        ("pen-human-v1", "pen-human-v1", "AdroitHandPen-v1", (10.0, 10.0)),
        ("d4rl/door-expert-v0", "door-expert-v0", "AdroitHandDoor-v1", (10.0, 10.0)),
    ],
)
def test_a_file_put_there_by_hand_is_found(shared_data, folder, name, file, env_id, weights):
    bare = name.removeprefix("d4rl/")
    shutil.copy(shared_data / "d4rl_excerpts" / f"{file}.hdf5", folder / f"{bare}.hdf5")
    dataset = load_dataset(name)
    assert (dataset.name, dataset.env_id) == (bare, env_id)
    agent = make_config(name, dataset.env_id, preset="paper").agent
    assert (agent.bonus_weight_actor, agent.bonus_weight_critic) == weights


def test_a_file_of_another_task_is_refused(shared_data, folder):
    shutil.copy(shared_data / "d4rl_excerpts" / "halfcheetah_medium-v2.hdf5", folder / "hopper-medium-v2.hdf5")
    with pytest.raises(
        TetherError, match=r"17 observations and 6 actions a row .*, where hopper has 11 and 3; a file of another task"
    ):
        load_dataset("hopper-medium-v2")


@pytest.mark.parametrize("record", [{"sha256": "0" * 64}, {}, []])
def test_a_file_that_is_not_the_one_downloaded_is_refused(shared_data, folder, record):
    shutil.copy(shared_data / "d4rl_excerpts" / "hopper_medium.hdf5", folder / "hopper-medium-v0.hdf5")
    (folder / "hopper-medium-v0.json").write_text(json.dumps(record))
    with pytest.raises(TetherError, match=r"is not the file that was downloaded: its sha256 .* --overwrite fetches it anew"):
        load_dataset("hopper-medium-v0")
