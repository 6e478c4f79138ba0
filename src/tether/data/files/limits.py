"""Whether a file holds what it declares, looked at before it is read: a few bytes of HDF5 can declare petabytes."""

from __future__ import annotations

import itertools
import math
import zlib
from pathlib import Path

import h5py

from tether.errors import TetherError

MOST_COMPRESSED = 1_100  # deflate gets to 1,032 : 1
UNQUESTIONED = 2**26  # bytes; a constant column may be stored as next to nothing, and this much harms nobody
READING_COPIES = 3  # of all columns at the worst moment: as stored, as float32, with the rows that are kept

# Of others HDF5 would have to be trusted with what they restore; and it loads code to apply those it does not know.
_CHECKABLE = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}


class DoesNotFit(TetherError):
    """The file may be as good as any; this machine is too small for it, or too busy."""


def check_declared(column: h5py.Dataset, name: str, path: Path) -> None:
    """Refuse sizes that no file of this size could hold."""
    declared, stored = max(_declared(column), _chunk(column)), _stored(column, path)
    if declared > max(UNQUESTIONED, MOST_COMPRESSED * stored):
        sizes = f"{spelt_size(declared)}, of which the file stores {spelt_size(stored)}"
        raise TetherError(f"{path.name}: {name} of shape {column.shape} declares {sizes}; the file is damaged or made to harm")


def check_memory(columns: dict[str, h5py.Dataset], path: Path, choices: int = 0) -> None:
    """Refuse, before a byte is read, what would not fit. Each of `choices` is a column of its own in memory."""
    needed = sum(math.prod(column.shape) * max(column.dtype.itemsize, 4) for column in columns.values())
    needed = READING_COPIES * (needed + 4 * choices * columns["actions"].shape[0])
    free = available_memory()
    if free is not None and needed > free:
        raise DoesNotFit(
            f"{path.name}: does not fit in memory; reading it takes about {spelt_size(needed)}, {spelt_size(free)} are free "
            "(tether train leaves it on disk by itself; in Python, load_dataset(..., on_disk=True))"
        )


def check_stored(column: h5py.Dataset, name: str, path: Path) -> None:
    """Refuse a column of which the file does not hold exactly what it declares.

    HDF5 does not look: a chunk that is missing reads as zeros, one that is too short as whatever was in memory, and one that is
    too long is inflated to its end.
    """
    if column.chunks is not None:
        _check_chunks(column, name, path)
    elif _stored(column, path) < _declared(column):
        raise TetherError(_incomplete(name, path))


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _declared(column: h5py.Dataset) -> int:
    return math.prod(column.shape) * column.id.get_type().get_size()  # of a number in the file, which may not be NumPy's


def _chunk(column: h5py.Dataset) -> int:
    return math.prod(column.chunks or (0,)) * column.id.get_type().get_size()


def _stored(column: h5py.Dataset, path: Path) -> int:
    return min(column.id.get_storage_size(), path.stat().st_size)


def _filters(column: h5py.Dataset, name: str, path: Path) -> list[int]:
    """What was done to each chunk when it was written, in that order."""
    pipeline = column.id.get_create_plist()
    found = [pipeline.get_filter(number) for number in range(pipeline.get_nfilters())]
    for code, _, _, label in found:
        if code not in _CHECKABLE:
            spelt = label.decode("utf-8", "replace").strip("\0")
            raise TetherError(
                f"{path.name}: {name} is compressed by HDF5 filter {code} ({spelt!r}); "
                "columns are read plain or compressed by gzip, as all of D4RL's are"
            )
    return [code for code, *_ in found]


def _check_chunks(column: h5py.Dataset, name: str, path: Path) -> None:
    filters, chunk = _filters(column, name, path), _chunk(column)
    grid = [range(0, rows, step) for rows, step in zip(column.shape, column.chunks, strict=True)]
    if column.id.get_num_chunks() < math.prod(map(len, grid)):
        raise TetherError(_incomplete(name, path))
    wrong_size = f"{path.name}: a chunk of {name} holds more or less than the {spelt_size(chunk)} it declares"
    if not filters:  # then HDF5 gives a chunk at its full size below, whatever is stored
        stored: list[h5py.h5d.StoreInfo] = []
        column.id.chunk_iter(stored.append)
        if any(info.size != chunk for info in stored):
            raise TetherError(wrong_size)
    for corner in itertools.product(*grid):
        try:
            skipped, content = column.id.read_direct_chunk(corner)  # finds a chunk as reading does, which listing them does not
        except (OSError, RuntimeError) as error:
            raise TetherError(_incomplete(name, path)) from error
        try:
            size = _restored_size(content, filters, skipped, chunk)
        except zlib.error as error:
            raise TetherError(f"{path.name}: a chunk of {name} is damaged ({error})") from error
        if size != chunk:
            raise TetherError(wrong_size)


def _restored_size(content: bytes, filters: list[int], skipped: int, most: int) -> int:
    """Bytes of a chunk after all that was done to it is undone; above `most` the count stops. `skipped` has one bit a filter."""
    for number, code in reversed(list(enumerate(filters))):
        if skipped >> number & 1:
            continue
        if code == h5py.h5z.FILTER_FLETCHER32:
            content = content[:-4]
        elif code == h5py.h5z.FILTER_DEFLATE:
            content = zlib.decompressobj().decompress(content, most + 5)
    return len(content)


def _incomplete(name: str, path: Path) -> str:
    return f"{path.name}: parts of {name} are declared and not stored; the file is damaged or was not written to its end"


def spelt_size(count: int) -> str:
    """`8.8 TB`, in powers of ten."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.0f} PB"
