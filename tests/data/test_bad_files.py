"""Each thing that can be wrong with a file has one message that names the file and the column."""

from __future__ import annotations

import zlib

import h5py
import numpy as np
import pytest

from tether.data import load_dataset
from tether.data.files.d4rl import read_d4rl
from tether.errors import TetherError


def _message(path) -> str:
    with pytest.raises(TetherError) as caught:
        read_d4rl(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_missing_file(tmp_path):
    assert _message(tmp_path / "gone.hdf5") == f"{tmp_path / 'gone.hdf5'}: no such file"


def test_folder(tmp_path):
    assert "not a file" in _message(tmp_path)


def test_not_hdf5(tmp_path):
    path = tmp_path / "notes.hdf5"
    path.write_text("observations, actions\n")
    assert _message(path) == "notes.hdf5: not a readable HDF5 file (file signature not found)"


def test_empty_file(tmp_path):
    path = tmp_path / "empty.hdf5"
    path.touch()
    assert _message(path).startswith("empty.hdf5: not a readable HDF5 file")


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_truncated_file(write_hdf5, share):
    path = write_hdf5(observations=np.zeros((4, 2000)), next_observations=None)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert _message(path).startswith("log.hdf5: not a readable HDF5 file (truncated file")


def test_damaged_column(write_hdf5):
    path = write_hdf5(observations=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("observations", data=np.random.default_rng(0).normal(size=(4, 2)), compression="gzip")
        chunk = file["observations"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(content)
    assert _message(path).startswith("log.hdf5: a chunk of observations is damaged (Error -3 while decompressing data")


@pytest.mark.parametrize("column", ["observations", "actions", "rewards", "terminals"])
def test_missing_column(write_hdf5, column):
    message = _message(write_hdf5(**{column: None}))
    assert message.startswith(f"log.hdf5: column {column} is missing; the file has ")
    assert column not in message.split("the file has")[1].replace("next_observations", "")


@pytest.mark.parametrize("column", ["actions", "rewards", "next_observations", "terminals", "timeouts"])
def test_ragged_lengths(write_hdf5, column):
    short = np.zeros((3, 2)) if column in ("actions", "next_observations") else np.zeros(3)
    assert _message(write_hdf5(**{column: short})) == f"log.hdf5: {column} has 3 rows, observations has 4"


def test_nan(write_hdf5):
    message = _message(write_hdf5(observations=[[0, 0], [0, 0], [np.nan, np.inf], [0, np.nan]]))
    assert message == "log.hdf5: observations has 3 NaN or Inf values, the first in row 2"


@pytest.mark.parametrize("column", ["actions", "rewards", "next_observations", "terminals"])
def test_inf_in_any_column(write_hdf5, column):
    values = np.zeros((4, 2)) if column in ("actions", "next_observations") else np.zeros(4)
    values[1] = -np.inf
    assert _message(write_hdf5(**{column: values})).startswith(f"log.hdf5: {column} has ")


def test_float64_beyond_float32(write_hdf5):
    assert "rewards has 1 NaN or Inf values, the first in row 3" in _message(write_hdf5(rewards=[0.0, 0.0, 0.0, 1e300]))


def test_text_column(write_hdf5):
    assert _message(write_hdf5(rewards=np.array([b"a", b"b", b"c", b"d"]))) == "log.hdf5: rewards has type |S1, expected numbers"


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("observations", np.zeros(4), "observations has shape (4,), expected (rows, numbers per row)"),
        ("observations", np.zeros((4, 3, 3)), "observations has shape (4, 3, 3), expected (rows, numbers per row)"),
        ("actions", np.zeros((4, 0)), "actions has shape (4, 0), expected (rows, numbers per row)"),
        ("actions", np.zeros(4), "actions has shape (4,), expected (rows, numbers per row)"),
        ("rewards", np.zeros((4, 2)), "rewards has shape (4, 2), expected (rows,)"),
        ("rewards", 1.0, "rewards has shape (), expected (rows,)"),
        ("next_observations", np.zeros((4, 3)), "next_observations has 3 numbers per row, observations has 2"),
    ],
)
def test_wrong_shape(write_hdf5, column, values, expected):
    assert _message(write_hdf5(**{column: values})) == f"log.hdf5: {expected}"


def test_flags_other_than_0_and_1(write_hdf5):
    assert _message(write_hdf5(timeouts=[0.0, 0.0, 0.5, 1.0])) == "log.hdf5: timeouts is 0.5 in row 2, expected 0 or 1"


@pytest.mark.parametrize(("name", "env_id"), [("hopper_medium.hdf5", None), ("log.hdf5", "Hopper-v5")])
def test_swapped_columns_of_a_known_task(write_hdf5, name, env_id):
    path = write_hdf5(name, env_id, observations=np.zeros((4, 3)), actions=np.zeros((4, 11)), next_observations=None)
    expected = "observations has 3 numbers per row and actions 11; for hopper it is the other way round: the columns are swapped"
    assert _message(path) == f"{name}: {expected}"


def test_one_column_with_its_bytes_in_the_other_order(write_hdf5):
    path = write_hdf5()
    content = bytearray(path.read_bytes())
    content[content.index(b"\x11\x20\x1f\x00\x04\x00\x00\x00") + 1] ^= 1  # the lowest bit of a float's description is its order
    path.write_bytes(content)
    expected = "some columns have their bytes in the other order than the rest; the file is damaged"
    assert _message(path) == f"log.hdf5: {expected}"


def test_a_file_with_all_bytes_in_the_other_order(write_hdf5):
    floats = {
        "observations": np.zeros((4, 2), ">f4"),
        "next_observations": np.ones((4, 2), ">f8"),
        "actions": np.ones((4, 1), ">f4"),
    }
    assert read_d4rl(write_hdf5(rewards=np.arange(4, dtype=">f4"), **floats)).transitions.reward.tolist() == [0, 1, 2, 3]


def test_no_rows(write_hdf5):
    assert _message(write_hdf5(observations=np.zeros((0, 2)))) == "log.hdf5: observations has no rows"


def test_no_row_with_a_successor(write_hdf5):
    path = write_hdf5(next_observations=None, terminals=[False] * 4, timeouts=[True] * 4)
    assert _message(path) == "log.hdf5: no row has a successor; every episode is one step that does not terminate"


def test_group_in_place_of_a_column(write_hdf5):
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_group("rewards")
    assert _message(path) == "log.hdf5: rewards is a group, not a column"


@pytest.mark.parametrize("link", [h5py.ExternalLink("secret.hdf5", "/rewards"), h5py.SoftLink("/rewards")])
def test_links_are_refused(write_hdf5, link):
    write_hdf5("secret.hdf5")
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file["rewards"] = link
    assert _message(path) == "log.hdf5: rewards is a link to /rewards; columns must be stored in the file itself"


def test_columns_stored_in_another_file_are_refused(write_hdf5, tmp_path):
    (tmp_path / "raw").write_bytes(bytes(16))
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("rewards", (4,), dtype=np.float32, external=[(str(tmp_path / "raw"), 0, 16)])
    assert _message(path) == "log.hdf5: rewards is stored in another file; columns must be stored in the file itself"


def test_virtual_columns_are_refused(write_hdf5):
    other = write_hdf5("other.hdf5")
    path = write_hdf5(rewards=None)
    layout = h5py.VirtualLayout((4,), np.float32)
    layout[:] = h5py.VirtualSource(other, "rewards", (4,))
    with h5py.File(path, "r+") as file:
        file.create_virtual_dataset("rewards", layout)
    assert "rewards is stored in another file" in _message(path)


@pytest.mark.parametrize("link", [h5py.ExternalLink("gone.hdf5", "/timeouts"), h5py.SoftLink("/timeouts")])
def test_a_link_to_nowhere_in_place_of_an_optional_column_is_refused(write_hdf5, link):
    path = write_hdf5(timeouts=None)
    with h5py.File(path, "r+") as file:
        file["timeouts"] = link
    assert _message(path) == "log.hdf5: timeouts is a link to /timeouts; columns must be stored in the file itself"


def test_recorded_returns_behind_a_link_are_refused(write_hdf5):
    path = write_hdf5()
    with h5py.File(path, "r+") as file:
        file["tether"] = h5py.ExternalLink("secret.hdf5", "/tether")
    assert _message(path) == "log.hdf5: tether is a link to /tether; columns must be stored in the file itself"


def test_columns_that_declare_more_than_the_file_can_hold(write_hdf5):
    path = write_hdf5(observations=None, actions=None, rewards=None, next_observations=None, terminals=None, timeouts=None)
    with h5py.File(path, "r+") as file:
        for name, width in (("observations", 2), ("actions", 1)):
            file.create_dataset(name, shape=(2**40, width), dtype="f4", chunks=(2**18, width), compression="gzip")
        for name in ("rewards", "terminals"):
            file.create_dataset(name, shape=(2**40,), dtype="f4", chunks=(2**18,), compression="gzip")
    assert _message(path) == (
        "log.hdf5: observations of shape (1099511627776, 2) declares 8.8 TB, of which the file stores 0 bytes; "
        "the file is damaged or made to harm"
    )


def test_a_chunk_larger_than_the_file_can_hold(write_hdf5):
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("rewards", shape=(4,), maxshape=(None,), dtype="f4", chunks=(2**29,))
    assert "rewards of shape (4,) declares 2.15 GB, of which the file stores 0 bytes" in _message(path)


@pytest.mark.parametrize("options", [{}, {"chunks": (2,)}])
def test_a_column_that_was_never_written(write_hdf5, options):
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("rewards", shape=(4,), dtype="f4", **options)
        if options:
            file["rewards"][:2] = 1.0  # one of two chunks
    expected = "parts of rewards are declared and not stored; the file is damaged or was not written to its end"
    assert _message(path) == f"log.hdf5: {expected}"


def test_a_chunk_that_hdf5_itself_loses(write_hdf5):
    """One changed byte in the index, which has no checksum: HDF5 lists the chunk, does not find it, and would read zeros."""
    path = write_hdf5(actions=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("actions", data=np.ones((4, 1), np.float32), chunks=(4, 1))
    content = bytearray(path.read_bytes())
    node = content.index(b"TREE\x01")  # of chunks; after 24 bytes its first key: size, filters, three offsets of 8 bytes each
    content[node + 24 + 8 + 16] = 64
    path.write_bytes(content)
    with h5py.File(path) as file:
        assert file["actions"].id.get_num_chunks() == 1
        assert file["actions"][...].tolist() == [[0.0], [0.0], [0.0], [0.0]]
    assert "parts of actions are declared and not stored" in _message(path)


@pytest.mark.parametrize(("column", "written"), [("next_observations", "next_observation"), ("timeouts", "timeout")])
def test_a_misspelt_optional_column_is_not_passed_over(write_hdf5, column, written):
    path = write_hdf5(**{column: None, written: np.zeros(4)})
    assert _message(path) == f"log.hdf5: there is {written} and no {column}; rename the one or leave it out"


@pytest.mark.parametrize("stored", [4, 12, 20, 10_000_000])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"fletcher32": True}])
def test_a_chunk_that_is_not_as_large_as_it_declares(write_hdf5, stored, options):
    """HDF5 itself reads past the end of a short one, and inflates a long one to its end."""
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        column = file.create_dataset("rewards", shape=(4,), dtype="f4", chunks=(4,), compression="gzip", **options)
        column.id.write_direct_chunk((0,), zlib.compress(bytes(stored)) + bytes(4 * ("fletcher32" in options)))
    assert _message(path) == "log.hdf5: a chunk of rewards holds more or less than the 16 bytes it declares"


def test_a_plain_chunk_that_is_too_short(write_hdf5):
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("rewards", shape=(4,), dtype="f4", chunks=(4,)).id.write_direct_chunk((0,), bytes(16))
    content = bytearray(path.read_bytes())
    content[content.index(b"TREE\x01") + 24] = 8  # the stored size of the first chunk
    path.write_bytes(content)
    assert _message(path) == "log.hdf5: a chunk of rewards holds more or less than the 16 bytes it declares"


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (3,)},
        {"chunks": (3,), "compression": "gzip"},
        {"chunks": (3,), "compression": "gzip", "shuffle": True, "fletcher32": True},
        {"chunks": (16,), "maxshape": (None,), "compression": "gzip"},
    ],
)
def test_columns_in_sound_chunks_are_read(write_hdf5, options):
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("rewards", data=np.array([1.0, 2.0, 3.0, 4.0]), **options)
    assert read_d4rl(path).transitions.reward.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_more_than_the_memory_holds_is_refused_before_it_is_read(write_hdf5, monkeypatch):
    monkeypatch.setattr("tether.data.files.limits.available_memory", lambda: 400)
    # Nine numbers a row, of 4 bytes but observations and rewards of 8, four rows, three copies.
    path = write_hdf5(rewards=np.zeros(4), observations=np.zeros((4, 2)), terminals=np.zeros(4, "u1"), timeouts=np.zeros(4, "u1"))
    said = "log.hdf5: does not fit in memory; reading it takes about 528 bytes, 400 bytes are free"
    assert _message(path).startswith(said)


def test_a_filter_that_cannot_be_checked(write_hdf5):
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_dataset("rewards", data=np.zeros(4), compression="lzf")
    expected = (
        "rewards is compressed by HDF5 filter 32000 ('lzf'); columns are read plain or compressed by gzip, as all of D4RL's are"
    )
    assert _message(path) == f"log.hdf5: {expected}"


def test_names_that_are_no_text_are_shown_in_one_line(write_hdf5):
    path = write_hdf5(rewards=None)
    with h5py.File(path, "r+") as file:
        file.create_group(b"\xff\x1b[31m\n")
    assert _message(path).endswith("the file has actions, next_observations, observations, terminals, timeouts, ��[31m")


@pytest.mark.parametrize("env_id", ["os:Hopper-v4", "", 3])
def test_environment_attribute_that_is_no_id(write_hdf5, env_id):
    message = _message(write_hdf5(env_id=env_id))
    assert message.startswith("log.hdf5: attribute env_id is ")
    assert message.endswith("expected the id of an environment such as Hopper-v4")


def test_unknown_dataset_name():
    with pytest.raises(TetherError, match=r"^no dataset named 'hoper-medium'.* \(or give a path to an \.hdf5 file\)$"):
        load_dataset("hoper-medium")


def test_load_dataset_takes_a_path_as_text_or_path(write_hdf5):
    path = write_hdf5()
    assert load_dataset(path).sha256 == load_dataset(str(path)).sha256
    odd_name = path.rename(path.with_suffix(".data"))
    assert load_dataset(odd_name).name == "log"
