"""Files on disk: JSON, JSON lines and tensors, none of which can carry code.

A whole file is written beside its place and renamed into it, so a reader, a crash or a full disk sees the old file or the
new one and never a part. JSON lines are appended in place; a line that a crash cut short is dropped by whoever comes next.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from tether.errors import TetherError

FORMAT = "tether"
FORMAT_VERSION = 1
MOST_HEADER = 100_000_000  # bytes: the format's own limit

Tree = TypeVar("Tree")

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.\w+")  # as `replacing` names them
_NUMBER_LIST = re.compile(r'\[\n([^\[\]{}"]+)\]')  # as json.dumps lays it out: a string never holds a bare line break


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Give a temporary path to write; when the block ends it becomes `path`, durably. When the block fails, `path` is as before.

    The folder of `path` is made if need be. An `OSError` anywhere in between becomes a `TetherError` that names `path`.
    """
    path = Path(path)
    # The suffix stays, for writers that choose their format by it; the token keeps two processes apart.
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(6)}{path.suffix}")
    try:
        _make_folder(path.parent)
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise TetherError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


def cache_root() -> Path:
    """Where what can be made again is kept: `TETHER_CACHE`, else the user's cache folder."""
    given = os.environ.get("TETHER_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tether"


def is_half_written(path: Path) -> bool:
    """Whether it is a file that `replacing` has begun and not yet put in its place."""
    return _TEMPORARY.fullmatch(path.name) is not None


class Busy(TetherError):
    """Another process holds what is asked for. It will be free when that one ends."""


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold `folder` against other processes, and clear it of half-written files. However the process ends, so does the hold."""
    try:
        import fcntl
    except ImportError:  # not on this platform: nobody is kept out
        yield
        return
    try:
        _make_folder(folder)
        lock = open(folder / ".lock", "a")  # noqa: SIM115 -- held open for the whole of the block
    except OSError as error:
        raise TetherError(f"cannot write to {folder}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another process is at work in {folder}; wait for it or choose another folder") from None
        except OSError as error:
            raise TetherError(f"cannot lock {folder}: {error.strerror or error}") from error
        for leftover in folder.iterdir():  # nobody else writes here now: what `replacing` did not finish was killed
            if is_half_written(leftover):
                leftover.unlink(missing_ok=True)
        yield


def write_json(path: Path | str, value: Any) -> None:
    """Write `value`, indented, with each list of numbers on one line. NaN and infinities stay as Python spells them."""
    text = json.dumps(value, indent=2, default=_plain, ensure_ascii=False)
    text = _NUMBER_LIST.sub(lambda match: f"[{' '.join(match[1].split())}]", text)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path | str) -> Any:
    """The value in a JSON file."""
    try:
        return json.loads(_read_bytes(path))
    except ValueError as error:
        raise TetherError(f"{path} is not valid JSON: {error}") from error


def write_tensors(path: Path | str, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write named arrays and text about them as one safetensors file."""
    from safetensors.numpy import save

    # save reads raw memory in C order. ascontiguousarray would turn a scalar into a vector of one.
    contiguous = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    for name, tensor in contiguous.items():
        if tensor.dtype.kind not in "biufc":  # bfloat16 and its like can be written but not read back into NumPy
            raise TypeError(f"{name} is of type {tensor.dtype}; store booleans, integers or floats of a NumPy type")
    content = save(contiguous, metadata=metadata | {"format": FORMAT, "format_version": str(FORMAT_VERSION)})
    with replacing(path) as temporary:
        temporary.write_bytes(_with_ordered_metadata(content))


def read_tensors(path: Path | str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the metadata of a file made by `write_tensors`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = _read_bytes(path)
    try:
        tensors = load(content)  # checks that the header is sound and covers the file to its last byte
    except (SafetensorError, KeyError) as error:  # KeyError: a type that NumPy lacks
        raise TetherError(f"{path} is cut short, damaged or not a safetensors file: {error}") from error
    header, _ = _split_safetensors(content)
    metadata = header.get("__metadata__", {})
    if metadata.get("format") != FORMAT:
        raise TetherError(f"{path} is a safetensors file, but not one that Tether wrote")
    if metadata.get("format_version") != str(FORMAT_VERSION):
        version = metadata.get("format_version")
        raise TetherError(f"{path} has format version {version}, this Tether reads version {FORMAT_VERSION}; upgrade Tether")
    return tensors, metadata


def read_metadata(path: Path | str) -> dict[str, str]:
    """The metadata of a file made by `write_tensors`, without its arrays. Whether those are whole is not looked at."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, MOST_HEADER)))
        return dict(header["__metadata__"])
    except OSError as error:
        raise TetherError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise TetherError(f"{path} is cut short, damaged or not a file that Tether wrote") from error


def flatten_tree(tree: Any) -> dict[str, np.ndarray]:
    """Copies of the arrays of a pytree, named by their place in it: `agent/critic/weights/0`."""
    import jax

    tensors: dict[str, np.ndarray] = {}
    for name, leaf in _named_leaves(tree):
        if not isinstance(leaf, np.ndarray | jax.Array):
            raise TypeError(f"{name} is a {type(leaf).__name__}, not an array; store only arrays")
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
            raise TypeError(f"{name} is a random key; store a seed or jax.random.key_data of it")
        if name in tensors:
            raise ValueError(f"two leaves of the tree are both named {name}")
        tensors[name] = np.array(leaf)
    return tensors


def unflatten_tree(template: Tree, tensors: dict[str, np.ndarray], any_length: bool = False) -> Tree:
    """A tree like `template` (of arrays or of `jax.ShapeDtypeStruct`) with the leaves that `flatten_tree` made.

    Names, shapes and types must match exactly; with `any_length`, an array of one axis may be longer or shorter (a table whose
    length is that of a dataset). A NumPy leaf of the template stays one, every other becomes a JAX array.
    """
    import jax
    import jax.numpy as jnp

    expected = dict(_named_leaves(template))
    missing = [name for name in expected if name not in tensors]
    extra = [name for name in tensors if name not in expected]
    if missing:
        raise TetherError(f"the stored arrays lack {missing[0]}{_and_others(missing)}")
    if extra:
        raise TetherError(f"the stored arrays have {extra[0]}{_and_others(extra)}, which has no place here")
    leaves: list[Any] = []
    for name, leaf in expected.items():
        stored = tensors[name]
        fits = stored.shape == leaf.shape or (any_length and len(stored.shape) == len(leaf.shape) == 1)
        if not fits or stored.dtype != leaf.dtype:
            raise TetherError(
                f"the stored array {name} is {stored.dtype}{list(stored.shape)}, where {leaf.dtype}{list(leaf.shape)} is expected"
            )
        # Copies, so that a JAX array never rests on memory that NumPy owns and a jitted function may donate it.
        leaves.append(np.array(stored) if isinstance(leaf, np.ndarray) else jnp.array(stored, copy=True))
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def append_jsonl(path: Path | str, record: dict[str, Any]) -> None:
    """Add one line. A last line that a crash cut short is removed first, so that the new one does not continue it."""
    line = json.dumps(record, default=_plain, ensure_ascii=False).encode() + b"\n"
    try:
        with open(path, "a+b") as file:
            cut_unfinished_line(file)
            file.write(line)
    except OSError as error:
        raise TetherError(f"cannot write {path}: {error.strerror}") from error


def cut_unfinished_line(file: BinaryIO) -> None:
    """Remove what stands behind the last line break of a file that is open for reading and appending."""
    size = end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(end - 65_536, 0)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        file.truncate(end)


def read_jsonl(path: Path | str) -> list[dict[str, Any]]:
    """The records of a file of JSON lines. A last line without its line break was cut short and is left out."""
    return [record for _, record in _lines(path)]


def truncate_jsonl(path: Path | str, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Keep only the lines whose record passes, byte for byte; a file that does not exist stays so."""
    if not Path(path).exists():
        return
    kept = [line for line, record in _lines(path) if keep(record)]
    with replacing(path) as temporary:
        temporary.write_bytes(b"".join(kept))


def _split_safetensors(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the data of a safetensors file: 8 bytes with the size of the header, the header as JSON, the data."""
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), content[start:]


def _with_ordered_metadata(content: bytes) -> bytes:
    """The same safetensors file with its metadata in order: the library shuffles it, and equal runs should have equal files."""
    header, data = _split_safetensors(content)
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # keeps the data aligned, as the library does
    return len(text).to_bytes(8, "little") + text + data


def _lines(path: Path | str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for number, line in enumerate(_read_bytes(path).splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            return
        try:
            record = json.loads(line)
        except ValueError as error:
            raise TetherError(f"{path}, line {number}: not valid JSON: {error}") from error
        if not isinstance(record, dict):
            raise TetherError(f"{path}, line {number}: a {type(record).__name__}, where a JSON object is expected")
        yield line, record


def _read_bytes(path: Path | str) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise TetherError(f"there is no file {path}") from error
    except OSError as error:
        raise TetherError(f"cannot read {path}: {error.strerror}") from error


def _plain(value: Any) -> Any:
    """What json.dumps does not know: NumPy and JAX scalars and arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in JSON")


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in leaves]


def _and_others(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(error.errno, f"{folder} is not a folder") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename in it outlive a power cut."""
    with suppress(OSError):  # Windows and some network mounts cannot; the content of the file is safe all the same
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
