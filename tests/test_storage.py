"""What is written comes back bit for bit; what is broken says so; what was there before survives every failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from tether import storage
from tether.errors import TetherError

TENSORS = {
    "bool": np.array([True, False, True]),
    "int32": np.array([[-(2**31), 2**31 - 1]], np.int32),
    "uint32": np.array(2**32 - 1, np.uint32),
    "float32": np.array([1.1, -0.0, np.inf, np.nan, 1e-45], np.float32),
    "float64": np.array(np.pi),
    "empty": np.zeros((0, 3), np.float32),
}


def assert_same_bits(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (actual[name].dtype, actual[name].shape) == (tensor.dtype, tensor.shape), name
        assert actual[name].tobytes() == tensor.tobytes(), name


# Tensors


def test_tensors_and_metadata_come_back_bit_for_bit(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "checkpoint.safetensors"
    storage.write_tensors(path, TENSORS, {"step": "1000", "name": "naïve"})
    tensors, metadata = storage.read_tensors(path)
    assert_same_bits(tensors, TENSORS)
    assert metadata == {"format": "tether", "format_version": "1", "step": "1000", "name": "naïve"}
    assert [entry.name for entry in path.parent.iterdir()] == ["checkpoint.safetensors"]


def test_tensors_that_are_not_contiguous_keep_their_values(tmp_path: Path):
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    storage.write_tensors(tmp_path / "x", {"transposed": grid.T, "every_other": grid[0, ::2]}, {})
    tensors, _ = storage.read_tensors(tmp_path / "x")
    np.testing.assert_array_equal(tensors["transposed"], [[0, 3], [1, 4], [2, 5]])
    np.testing.assert_array_equal(tensors["every_other"], [0, 2])


def test_equal_content_gives_equal_files_in_another_process(tmp_path: Path):
    script = """
import sys, numpy as np
from tether.storage import write_tensors
write_tensors(sys.argv[1], {"b": np.zeros(3), "a": np.ones(2)}, {name: "1" for name in "stuvwxyz"})
"""
    for name in ("first", "second"):
        subprocess.run([sys.executable, "-c", script, str(tmp_path / name)], check=True)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_a_type_that_could_not_be_read_back_is_not_written(tmp_path: Path):
    with pytest.raises(TypeError, match="half is of type bfloat16"):
        storage.write_tensors(tmp_path / "x", {"half": np.asarray(jnp.zeros(2, jnp.bfloat16))}, {})
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_file_cut_anywhere_is_refused_by_name(tmp_path: Path, share: float):
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    storage.write_tensors(whole, TENSORS, {"step": "1"})
    content = whole.read_bytes()
    cut.write_bytes(content[: int(share * len(content))])
    with pytest.raises(TetherError, match=r"cut\.safetensors is cut short, damaged or not a safetensors file"):
        storage.read_tensors(cut)


@pytest.mark.parametrize("content", [b"", b"not tensors at all", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}tail"])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, content: bytes):
    (tmp_path / "other.bin").write_bytes(content)
    with pytest.raises(TetherError, match=r"other\.bin is cut short, damaged or not a safetensors file"):
        storage.read_tensors(tmp_path / "other.bin")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_another_program_is_refused_by_name(tmp_path: Path, metadata: dict[str, str] | None):
    save_file({"weights": np.zeros(2)}, tmp_path / "torch.safetensors", metadata=metadata)
    with pytest.raises(TetherError, match=r"torch\.safetensors is a safetensors file, but not one that Tether wrote"):
        storage.read_tensors(tmp_path / "torch.safetensors")


def test_a_file_of_a_newer_version_is_refused_by_name(tmp_path: Path):
    save_file({"weights": np.zeros(2)}, tmp_path / "new.safetensors", metadata={"format": "tether", "format_version": "2"})
    with pytest.raises(TetherError, match=r"new\.safetensors has format version 2, this Tether reads version 1"):
        storage.read_tensors(tmp_path / "new.safetensors")


@pytest.mark.parametrize("read", [storage.read_tensors, storage.read_json, storage.read_jsonl])
def test_reading_what_is_not_there_names_it(tmp_path: Path, read):
    with pytest.raises(TetherError, match=r"there is no file .*absent"):
        read(tmp_path / "absent")
    with pytest.raises(TetherError, match=r"cannot read .*: Is a directory"):
        read(tmp_path)


# JSON


def test_json_comes_back_and_keeps_number_lists_on_one_line(tmp_path: Path):
    value = {
        "returns": np.array([1.5, 2.5]),
        "score": np.float32(0.5),
        "steps": [{"at": 1}, []],
        "worst": float("-inf"),
        "text": "[\n1\n]",
    }
    storage.write_json(tmp_path / "result.json", value)
    assert storage.read_json(tmp_path / "result.json") == value | {"returns": [1.5, 2.5]}
    text = (tmp_path / "result.json").read_text()
    assert '\n  "returns": [1.5, 2.5],\n' in text
    assert text.endswith("}\n")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), lambda inner: st.lists(inner)
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_any_json_comes_back_equal(tmp_path: Path, value: object):
    storage.write_json(tmp_path / "value.json", {"value": value})
    assert storage.read_json(tmp_path / "value.json") == {"value": value}


@pytest.mark.parametrize("content", [b"", b'{"step": 1', b"\x80\x81"])
def test_broken_json_is_refused_by_name(tmp_path: Path, content: bytes):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(TetherError, match=r"config\.json is not valid JSON: "):
        storage.read_json(tmp_path / "config.json")


# Atomic replacement


def test_a_failure_while_writing_leaves_the_old_file_alone(tmp_path: Path):
    path = tmp_path / "result.json"
    storage.write_json(path, {"step": 1})

    def interrupted() -> None:
        with storage.replacing(path) as temporary:
            temporary.write_text("half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert storage.read_json(path) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_alone(tmp_path: Path):
    path = tmp_path / "checkpoint.safetensors"
    storage.write_tensors(path, {"x": np.zeros(4)}, {"step": "1"})
    script = """
import resource, sys, numpy as np
from tether.errors import TetherError
from tether.storage import write_tensors
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    write_tensors(sys.argv[1], {"x": np.zeros(10_000)}, {"step": "2"})
except TetherError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True)
    assert done.stdout == f"cannot write {path}: File too large\n"
    tensors, metadata = storage.read_tensors(path)
    assert metadata["step"] == "1"
    assert_same_bits(tensors, {"x": np.zeros(4)})
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("here first")
    (tmp_path / "folder").mkdir()
    with pytest.raises(TetherError, match=r"cannot write .*result\.json: .*file is not a folder"):
        storage.write_json(file / "result.json", {})
    with pytest.raises(TetherError, match=r"cannot write .*result\.json: Not a directory"):
        storage.write_json(file / "deeper" / "result.json", {})
    with pytest.raises(TetherError, match=r"cannot write .*folder: Is a directory"):
        storage.write_json(tmp_path / "folder", {})
    with pytest.raises(TetherError, match=r"cannot write .*file/metrics\.jsonl: Not a directory"):
        storage.append_jsonl(file / "metrics.jsonl", {})
    assert file.read_text() == "here first"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux's /proc, a folder where nobody may write")
def test_a_folder_where_nobody_may_write_is_named():
    with pytest.raises(TetherError, match=r"cannot write /proc/self/result\.json: "):
        storage.write_json("/proc/self/result.json", {})


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path):
    path = tmp_path / "checkpoint.safetensors"
    storage.write_tensors(path, {"x": np.zeros(300_000)}, {"step": "0"})
    script = """
import sys, numpy as np
from tether.storage import write_tensors
print("ready", flush=True)
for step in range(1, 1_000_000):
    write_tensors(sys.argv[1], {"x": np.full(300_000, float(step))}, {"step": str(step)})
"""
    for wait in (0.0, 0.003, 0.02, 0.05, 0.11):
        with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(wait)
            writer.send_signal(signal.SIGKILL)
        tensors, metadata = storage.read_tensors(path)
        np.testing.assert_array_equal(tensors["x"], np.full(300_000, float(metadata["step"])))


# Trees


class Critic(NamedTuple):
    weights: tuple[jax.Array, ...]
    bias: jax.Array


def tree() -> dict[str, object]:
    return {
        "agent": {"critic": Critic((jnp.ones((2, 3)), jnp.zeros((3,))), jnp.array(0.5)), "nothing": None},
        "step": jnp.array(7, jnp.int32),
        "seen": jnp.array([True, False]),
        "key_data": jax.random.key_data(jax.random.key(0)),
        "host": np.array([1.0, 2.0], np.float32),
    }


def test_a_tree_is_named_by_its_places():
    assert sorted(storage.flatten_tree(tree())) == [
        "agent/critic/bias",
        "agent/critic/weights/0",
        "agent/critic/weights/1",
        "host",
        "key_data",
        "seen",
        "step",
    ]


def test_a_tree_comes_back_bit_for_bit_through_a_file(tmp_path: Path):
    storage.write_tensors(tmp_path / "state", storage.flatten_tree(tree()), {})
    tensors, _ = storage.read_tensors(tmp_path / "state")
    shapes = jax.eval_shape(tree)
    for template in (tree(), shapes):
        restored = storage.unflatten_tree(template, tensors)
        assert jax.tree.structure(restored) == jax.tree.structure(tree())
        assert_same_bits(storage.flatten_tree(restored), storage.flatten_tree(tree()))
        assert isinstance(restored["step"], jax.Array)
    assert isinstance(storage.unflatten_tree(tree(), tensors)["host"], np.ndarray)


def test_flattening_copies_so_that_a_donated_state_can_be_saved():
    state = {"x": jnp.zeros(5)}
    tensors = storage.flatten_tree(state)
    jax.jit(lambda x: x + 1.0, donate_argnums=0)(state["x"])
    np.testing.assert_array_equal(tensors["x"], np.zeros(5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": None}, r"the stored arrays lack step"),
        ({"step": None, "seen": None}, r"the stored arrays lack seen and 1 more"),
        ({"agent/actor": np.zeros(1)}, r"the stored arrays have agent/actor, which has no place here"),
        ({"seen": np.array([True])}, r"the stored array seen is bool\[1\], where bool\[2\] is expected"),
        ({"step": np.array(7, np.uint32)}, r"the stored array step is uint32\[\], where int32\[\] is expected"),
    ],
)
def test_a_tree_of_another_shape_is_refused_with_the_first_difference(change: dict[str, np.ndarray | None], message: str):
    tensors = {name: tensor for name, tensor in (storage.flatten_tree(tree()) | change).items() if tensor is not None}
    with pytest.raises(TetherError, match=message):
        storage.unflatten_tree(tree(), tensors)


def test_leaves_that_are_not_plain_arrays_are_refused():
    with pytest.raises(TypeError, match="agent/key is a random key"):
        storage.flatten_tree({"agent": {"key": jax.random.key(0)}})
    with pytest.raises(TypeError, match="rate is a float, not an array"):
        storage.flatten_tree({"rate": 0.1})
    with pytest.raises(ValueError, match="both named a/b"):
        storage.flatten_tree({"a": {"b": np.zeros(1)}, "a/b": np.zeros(1)})


# JSON lines


def test_lines_are_appended_and_read_in_order(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    storage.append_jsonl(path, {"step": 1, "critic/loss": np.float32(0.5)})
    storage.append_jsonl(path, {"step": 2})
    assert path.read_text() == '{"step": 1, "critic/loss": 0.5}\n{"step": 2}\n'
    assert storage.read_jsonl(path) == [{"step": 1, "critic/loss": 0.5}, {"step": 2}]


@pytest.mark.parametrize("torn", ['{"st', '{"step": 2}', "{"])
def test_a_last_line_cut_short_is_left_out_and_written_over(tmp_path: Path, torn: str):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + torn)
    assert storage.read_jsonl(path) == [{"step": 1}]
    storage.append_jsonl(path, {"step": 3})
    assert path.read_text() == '{"step": 1}\n{"step": 3}\n'


def test_a_file_of_one_cut_line_is_empty(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step')
    assert storage.read_jsonl(path) == []
    storage.append_jsonl(path, {"step": 1})
    assert storage.read_jsonl(path) == [{"step": 1}]


@pytest.mark.parametrize(("line", "message"), [('{"st', "not valid JSON"), ("[1]", "a list, where a JSON object is expected")])
def test_a_broken_line_before_the_last_is_an_error_with_its_number(tmp_path: Path, line: str, message: str):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + line + '\n{"step": 3}\n')
    with pytest.raises(TetherError, match=rf"metrics\.jsonl, line 2: {message}"):
        storage.read_jsonl(path)


def test_truncating_keeps_the_lines_that_pass_byte_for_byte(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step":1,  "x": 0.10}\n{"step": 2}\n{"fit_step": 9}\n{"step": 3')
    storage.truncate_jsonl(path, lambda record: record.get("step", 0) <= 1)
    assert path.read_text() == '{"step":1,  "x": 0.10}\n{"fit_step": 9}\n'
    storage.truncate_jsonl(tmp_path / "absent", lambda record: True)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full, a disk that is always full")
def test_appending_to_a_full_disk_says_so():
    with pytest.raises(TetherError, match="cannot write /dev/full: No space left on device"):
        storage.append_jsonl("/dev/full", {"step": 1})


def test_files_have_the_permissions_that_the_user_asked_for(tmp_path: Path):
    before = os.umask(0o027)
    try:
        storage.write_json(tmp_path / "result.json", json.loads("{}"))
    finally:
        os.umask(before)
    assert (tmp_path / "result.json").stat().st_mode & 0o777 == 0o640


def test_holding_a_folder_clears_it_of_half_written_files_and_of_nothing_else(tmp_path: Path):
    kept = ["checkpoint.safetensors", ".hidden.safetensors", ".lock", ".checkpoint.short12.safetensors"]
    for name in [*kept, ".checkpoint.0123456789ab.safetensors"]:
        (tmp_path / name).write_bytes(b"")
    with storage.exclusive(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {*kept}
