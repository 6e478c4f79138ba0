"""`tether data`: the numbers reach the screen, and as JSON they can be read back."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

from tether.cli import main
from tether.cli.data.info import info
from tether.cli.data.listing import list_datasets
from tether.data import built_in_datasets, load_dataset
from tether.errors import TetherError


@pytest.fixture
def pen_file(tmp_path):
    """Two episodes of two steps, no successors, three action entries out of bounds, constant rewards."""
    path = tmp_path / "pen-human-v1.hdf5"
    actions = np.zeros((4, 24))
    actions[0, :3] = 2.0
    with h5py.File(path, "w") as file:
        file["observations"] = np.zeros((4, 45))
        file["actions"] = actions
        file["rewards"] = np.full(4, 0.5)
        file["terminals"] = np.zeros(4, dtype=bool)
        file["timeouts"] = np.array([False, True, False, True])
    return path


def test_info_as_json(pen_file, capsys):
    info(str(pen_file), json=True)
    facts = json.loads(capsys.readouterr().out)
    assert (facts["env_id"], facts["transitions"], facts["episodes"]) == ("AdroitHandPen-v1", 2, 2)
    assert (facts["notes"]["rows_dropped"], facts["notes"]["action_entries_clipped"]) == (2, 3)


def test_info_as_table(pen_file, capsys):
    info(str(pen_file))
    shown = capsys.readouterr().out
    assert "…" not in shown
    for text in ("AdroitHandPen-v1", "2 of 4", "3 entries", "in [-1, 1]", "45 numbers", "constant", "shifted from the next row"):
        assert text in shown


@pytest.mark.parametrize(
    ("reward", "ends", "said"),
    [(0.5, 0, "nothing to learn"), (0.5, 1, "only the length of episodes"), (0.0, 1, "nothing to learn")],
)
def test_info_says_what_a_constant_reward_can_teach(pen_file, capsys, reward, ends, said):
    with h5py.File(pen_file, "a") as file:
        file["rewards"][:] = reward
        file["terminals"][1] = ends
    info(str(pen_file))
    assert f"(constant: {said}" in " ".join(capsys.readouterr().out.split())


def test_info_of_an_unknown_name():
    with pytest.raises(TetherError, match="no dataset named 'nowhere'"):
        info("nowhere")


def test_list_names_every_built_in_dataset(capsys):
    list_datasets()
    shown = capsys.readouterr().out
    assert all(name in shown for name in built_in_datasets())
    assert shown.strip()


@pytest.fixture
def four_episodes(tmp_path):
    """Four episodes of two steps with returns 0, 2, 4 and 6, and a provenance that looks like markup."""
    path = tmp_path / "log.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(16.0).reshape(8, 2)
        file["next_observations"] = np.arange(16.0).reshape(8, 2) + 1
        file["actions"] = np.zeros((8, 1))
        file["rewards"] = np.repeat(np.arange(4.0), 2)
        file["terminals"] = np.zeros(8)
        file["timeouts"] = np.tile([0, 1], 4)
        file.attrs["maker"] = "[/red] \x1b[31m"
    return path


def test_the_commands_that_write_datasets(four_episodes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert (
        main(["data", "split", "log.hdf5", "--train", "train.hdf5", "--held-out", "apart/held-out.hdf5", "--share", "0.5"]) == 0
    )
    assert main(["data", "concat", "train.hdf5", "apart/held-out.hdf5", "--out", "whole.hdf5"]) == 0
    assert main(["data", "filter", "whole.hdf5", "--out", "best.hdf5", "--best-share", "0.5"]) == 0
    assert main(["data", "subsample", "whole.hdf5", "--out", "three.hdf5", "--transitions", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "train.hdf5: 4 transitions",
        "apart/held-out.hdf5: 4 transitions",
        "whole.hdf5: 8 transitions",
        "best.hdf5: 4 transitions",
        "three.hdf5: 3 transitions",
    ]
    assert "2 episodes, return 5.0 ± 1.0" in lines[3]
    assert sorted(load_dataset("whole.hdf5").episode_returns) == [0, 2, 4, 6]
    assert main(["data", "info", "best.hdf5"]) == 0
    shown = capsys.readouterr().out
    assert "filter (best_share 0.5) of" in shown
    assert "maker [/red] �[31m" in shown


@pytest.mark.parametrize(("choices", "said", "unsaid"), [(None, "tethered has divide", "dqn"), (2, "dqn has divide", "tethered")])
def test_info_names_the_scaling_of_agents_that_can_learn_from_the_log(four_episodes, capsys, choices, said, unsaid):
    if choices is not None:
        with h5py.File(four_episodes, "a") as file:
            file.attrs["num_actions"] = choices
    assert main(["data", "info", str(four_episodes)]) == 0
    shown = capsys.readouterr().out
    assert said in shown
    assert unsaid not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("split log.hdf5 --train log.hdf5 --held-out x.hdf5", "log.hdf5 is there already; give another name, or --overwrite"),
        ("split log.hdf5 --train x.hdf5 --held-out ./x.hdf5", "x.hdf5 is named twice; every part needs a file of its own"),
        ("split log.hdf5 --train x.hdf5 --held-out y.hdf5 --share 1.5", "--share is 1.5, expected more than 0 and less than 1"),
        ("subsample log.hdf5 --out x.hdf5 --share 0", "--share is 0.0, expected more than 0 and less than 1"),
        ("filter log.hdf5 --out x.hdf5 --best-share 2", "--best-share is 2.0, expected more than 0 and less than 1"),
        ("concat log.hdf5 --out x.hdf5", "concatenate takes two datasets or more"),
        ("concat log.hdf5 lag.hdf5 --out x.hdf5", "lag.hdf5: no such file"),
        ("subsample log.hdf5 --out x.hdf5", "say how much to draw with one of --episodes, --transitions and --share"),
        ("filter log.hdf5 --out x.hdf5", "say what to keep with --min-return, --max-return or --best-share"),
        ("filter log.hdf5 --out x.hdf5 --min-return 7", "log: no episode has a return from 7 to inf; they go from 0 to 6"),
    ],
)
def test_a_mistake_leaves_no_file(four_episodes, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    before = four_episodes.read_bytes()
    assert main(["data", *arguments.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [four_episodes]
    assert four_episodes.read_bytes() == before


def test_overwriting_is_done_when_asked_for(four_episodes, tmp_path):
    out = tmp_path / "out.hdf5"
    for share in ("0.5", "0.25"):
        assert main(["data", "filter", str(four_episodes), "--out", str(out), "--best-share", share, "--overwrite"]) == 0
    assert load_dataset(out).episode_returns.tolist() == [6.0]
