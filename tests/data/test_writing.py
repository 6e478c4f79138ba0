"""What is written reads back the same, with where it came from; and is written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import h5py
import numpy as np
import pytest
from pendulum import files_of_at_most

from tether.data import Dataset, load_dataset
from tether.data.files.attributes import read_provenance
from tether.data.files.writing import save_dataset, save_datasets
from tether.data.info import describe
from tether.data.provenance import describe_provenance
from tether.data.transforms import concatenate, filter_by_return, split_episodes, subsample
from tether.errors import TetherError


def assert_same(dataset: Dataset, other: Dataset) -> None:
    for column, expected in zip(dataset.transitions, other.transitions, strict=True):
        assert column.dtype == np.float32
        np.testing.assert_array_equal(column, expected)
    np.testing.assert_array_equal(dataset.truncated, other.truncated)
    np.testing.assert_array_equal(dataset.episode_ends, other.episode_ends)
    np.testing.assert_array_equal(dataset.episode_returns, other.episode_returns)
    assert (dataset.spec, dataset.env_id, dataset.provenance) == (other.spec, other.env_id, other.provenance)


@pytest.mark.parametrize(
    "name",
    ["hopper_medium", "hopper_random-v1", "hopper_medium_replay-v1", "hopper_medium-v2", "pen-human-v1", "door-expert-v0"],
)
def test_a_real_file_comes_back_the_same(shared_data, tmp_path, name):
    dataset = load_dataset(shared_data / "d4rl_excerpts" / f"{name}.hdf5")
    save_dataset(dataset, tmp_path / "copy.hdf5")
    copy = load_dataset(tmp_path / "copy.hdf5")
    assert_same(copy, dataset)
    assert (copy.notes.rows_dropped, copy.notes.action_bounds, copy.notes.episode_ends) == (0, "recorded", "recorded")


def test_the_return_of_a_dropped_row_is_kept(write_hdf5, tmp_path):
    dataset = load_dataset(write_hdf5(next_observations=None))  # row 3, with a reward of 4, has no successor
    save_dataset(dataset, tmp_path / "copy.hdf5")
    copy = load_dataset(tmp_path / "copy.hdf5")
    np.testing.assert_array_equal(copy.transitions.reward, [1, 2, 3])
    np.testing.assert_array_equal(copy.episode_returns, [3.0, 7.0])


def test_measured_bounds_stay_those_of_the_whole(write_hdf5, tmp_path):
    dataset = load_dataset(write_hdf5(actions=[[-4.0], [0.0], [0.5], [6.0]]))
    _, part = split_episodes(dataset, 0.5, seed=0)
    save_dataset(part, tmp_path / "part.hdf5")
    assert load_dataset(tmp_path / "part.hdf5").spec == dataset.spec
    assert dataset.spec.action_low == (np.float32(-4.1),)


def test_other_readers_find_the_columns_of_d4rl(write_hdf5, tmp_path):
    save_dataset(load_dataset(write_hdf5(env_id="Hopper-v4")), tmp_path / "copy.hdf5")
    with h5py.File(tmp_path / "copy.hdf5") as file:
        assert sorted(file) == ["actions", "next_observations", "observations", "rewards", "terminals", "tether", "timeouts"]
        assert file["terminals"][...].tolist() == [False, True, False, False]
        assert file["timeouts"][...].tolist() == [False, False, False, True]
        assert file.attrs["env_id"] == b"Hopper-v4"


def test_provenance_leads_back_to_the_files(write_hdf5, tmp_path):
    parent = load_dataset(write_hdf5("first.hdf5", next_observations=None))
    train, held_out = split_episodes(parent, 0.5, seed=3)
    save_datasets({tmp_path / "train.hdf5": train, tmp_path / "held-out.hdf5": held_out})
    again = [load_dataset(tmp_path / name) for name in ("train.hdf5", "held-out.hdf5")]
    save_dataset(concatenate(again), tmp_path / "whole.hdf5")
    with h5py.File(tmp_path / "whole.hdf5") as file:
        found = json.loads(file.attrs["provenance"])
    assert (found["operation"], found["arguments"]) == ("concat", {})
    assert [entry["name"] for entry in found["parents"]] == ["train", "held-out"]
    assert [entry["sha256"] for entry in found["parents"]] == [part.sha256 for part in again]
    split = found["parents"][1]["provenance"]
    assert (split["operation"], split["arguments"]) == ("split", {"held_out_share": 0.5, "seed": 3, "part": "held out"})
    (grandparent,) = split["parents"]
    assert (grandparent["name"], grandparent["sha256"], grandparent["provenance"]) == ("first", parent.sha256, {})
    assert grandparent["notes"] == asdict(parent.notes)
    assert describe_provenance(load_dataset(tmp_path / "whole.hdf5").provenance) == [
        "concat of",
        f"  train {again[0].sha256[:12]}…",
        "    split (held_out_share 0.5, seed 3, part train) of",
        f"      first {parent.sha256[:12]}… (1 rows dropped)",
        f"  held-out {again[1].sha256[:12]}…",
        "    split (held_out_share 0.5, seed 3, part held out) of",
        f"      first {parent.sha256[:12]}… (1 rows dropped)",
    ]


def test_arguments_of_every_operation_are_kept(write_hdf5):
    dataset = load_dataset(write_hdf5())
    made = [
        subsample(dataset, episodes=1, seed=2),
        subsample(dataset, transitions=3),
        filter_by_return(dataset, minimum=5.0),
        concatenate([dataset, dataset], env_id="Hopper-v5"),
    ]
    assert [(part.provenance["operation"], part.provenance["arguments"]) for part in made] == [
        ("subsample", {"episodes": 1, "seed": 2}),
        ("subsample", {"transitions": 3, "seed": 0}),
        ("filter", {"minimum": 5.0}),
        ("concat", {"env_id": "Hopper-v5"}),
    ]


def test_attributes_of_any_file_are_its_provenance(write_hdf5):
    path = write_hdf5(env_id="Hopper-v4")
    with h5py.File(path, "r+") as file:
        file.attrs["seed"] = 7
        file.attrs["share"] = np.longdouble(0.5)
        file.attrs["returns"] = [1.5, 2.0]
        file.attrs["options"] = '{"noise": 0.3}'
        file.attrs["note"] = "{not JSON"
        file.attrs["reference"] = file["rewards"].ref  # neither text nor a number
    expected = {"note": "{not JSON", "options": {"noise": 0.3}, "returns": [1.5, 2.0], "seed": 7, "share": 0.5}
    assert load_dataset(path).provenance == read_provenance(path) == json.loads(json.dumps(expected)) == expected
    assert describe_provenance(expected) == ["note {not JSON, returns [1.5, 2], seed 7, share 0.5"]
    assert describe(load_dataset(path))["provenance"] == expected


@pytest.mark.parametrize(
    "text",
    ['{"operation": "split"}', '{"operation": 1, "arguments": [], "parents": 2}', '{"a":' * 500 + "1" + "}" * 500, "[[1]]", "{"],
)
def test_provenance_that_is_none_of_ours_is_shown_without_harm(write_hdf5, text):
    path = write_hdf5()
    with h5py.File(path, "r+") as file:
        file.attrs["provenance"] = text
    facts = describe(load_dataset(path))
    json.dumps(facts, indent=2)
    assert "\n" not in "".join(describe_provenance(facts["provenance"]))


def test_recorded_returns_must_fit_the_episodes(write_hdf5, tmp_path):
    path = tmp_path / "copy.hdf5"
    save_dataset(load_dataset(write_hdf5()), path)
    with h5py.File(path, "r+") as file:
        file["timeouts"][0] = True
    with pytest.raises(TetherError, match=r"copy\.hdf5: tether/episode_returns has 2 entries, the flags make 3 episodes"):
        load_dataset(path)


@pytest.mark.parametrize(
    ("low", "high"), [([1.0], [1.0]), ([-1.0, -1.0], [1.0, 1.0]), ([np.nan], [1.0]), (["a"], [1.0]), ([-1.0], None)]
)
def test_recorded_bounds_must_be_bounds(write_hdf5, low, high):
    path = write_hdf5()
    with h5py.File(path, "r+") as file:
        file.attrs["action_low"] = low
        if high is not None:
            file.attrs["action_high"] = high
    with pytest.raises(TetherError, match=r"action_low and action_high are no bounds of 1 numbers with low < high"):
        load_dataset(path)


def test_the_same_dataset_gives_the_same_bytes(write_hdf5, tmp_path):
    dataset = load_dataset(write_hdf5())
    save_dataset(dataset, tmp_path / "one.hdf5")
    save_dataset(dataset, tmp_path / "two.hdf5")
    assert (tmp_path / "one.hdf5").read_bytes() == (tmp_path / "two.hdf5").read_bytes()


def test_a_full_disk_leaves_neither_of_two_files(write_hdf5, tmp_path):
    dataset = load_dataset(write_hdf5(observations=np.random.default_rng(0).normal(size=(4, 5000)), next_observations=None))
    small = subsample(load_dataset(write_hdf5("small.hdf5")), episodes=1)
    folder = tmp_path / "out"
    with files_of_at_most(30_000), pytest.raises(TetherError, match=r"cannot write .*large\.hdf5: File too large"):
        save_datasets({folder / "small.hdf5": small, folder / "large.hdf5": dataset})
    assert list(folder.iterdir()) == []


def test_any_flipped_bit_is_found_or_changes_nothing(write_hdf5, tmp_path):
    path: Path = tmp_path / "copy.hdf5"
    dataset = subsample(load_dataset(write_hdf5(env_id="Hopper-v4")), transitions=3)
    save_dataset(dataset, path)
    with h5py.File(path) as file:
        chunks = [file[name].id.get_chunk_info(0) for name in ("observations", "rewards", "timeouts", "tether/episode_returns")]
    places = [place for chunk in chunks for place in range(chunk.byte_offset, chunk.byte_offset + chunk.size)]
    content, random = path.read_bytes(), np.random.default_rng(0)
    found = 0
    for place in [*places, *random.choice(len(content), size=300, replace=False)]:
        changed = bytearray(content)
        changed[place] ^= 1 << random.integers(8)
        path.write_bytes(changed)
        try:
            assert_same(load_dataset(path), dataset)
        except TetherError:
            found += 1
    assert found > 200
