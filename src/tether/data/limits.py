"""What a file may make this machine do before any of it is read: a few bytes of HDF5 can declare petabytes."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import h5py

from tether.errors import TetherError

MOST_COMPRESSED = 1_100  # deflate gets to 1,032 : 1
UNQUESTIONED = 2**26  # bytes; a constant column may be stored as next to nothing, and this much harms nobody
READING_COPIES = 3  # of all columns at the worst moment: as stored, as float32, with the rows that are kept

_FILTERS_WITHOUT_PLUGINS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF}


def check_column(column: h5py.Dataset, name: str, path: Path) -> None:
    """Refuse a column that declares what its file does not hold, or that this HDF5 cannot decompress."""
    item = column.dtype.itemsize
    declared = math.prod(column.shape) * item
    stored = min(column.id.get_storage_size(), path.stat().st_size)
    chunk = 0 if column.chunks is None else math.prod(column.chunks) * item
    if max(declared, chunk) > max(UNQUESTIONED, MOST_COMPRESSED * stored):
        sizes = f"{spelt_size(max(declared, chunk))}, of which the file stores {spelt_size(stored)}"
        raise TetherError(f"{path.name}: {name} of shape {column.shape} declares {sizes}; the file is damaged or made to harm")
    _check_complete(column, name, declared, path)
    pipeline = column.id.get_create_plist()
    for number in range(pipeline.get_nfilters()):
        code, _, _, label = pipeline.get_filter(number)
        if code not in _FILTERS_WITHOUT_PLUGINS and not h5py.h5z.filter_avail(code):
            spelt = label.decode("utf-8", "replace").strip("\0") or "no name"
            raise TetherError(
                f"{path.name}: {name} is compressed by HDF5 filter {code} ({spelt!r}), which is not installed here; "
                "h5repack -f GZIP=4 IN OUT rewrites the file where it is"
            )
        if code == h5py.h5z.FILTER_DEFLATE:
            _check_chunks(column, name, chunk, path)


def check_memory(columns: dict[str, h5py.Dataset], path: Path, choices: int = 0) -> None:
    """Refuse, before a byte is read, what would not fit. Each of `choices` is a column of its own in memory."""
    needed = sum(math.prod(column.shape) * max(column.dtype.itemsize, 4) for column in columns.values())
    needed = READING_COPIES * (needed + 4 * choices * columns["actions"].shape[0])
    free = available_memory()
    if free is not None and needed > free:
        raise TetherError(
            f"{path.name}: does not fit in memory; reading it takes about {spelt_size(needed)}, {spelt_size(free)} are free "
            "(tether train leaves it on disk by itself; in Python, load_dataset(..., on_disk=True))"
        )


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _check_complete(column: h5py.Dataset, name: str, declared: int, path: Path) -> None:
    """What was declared and never written, or lost by damage, would read as zeros."""
    if column.chunks is None:
        missing = column.id.get_storage_size() < declared
    else:
        expected = math.prod(-(-rows // step) for rows, step in zip(column.shape, column.chunks, strict=True))
        missing = column.id.get_num_chunks() < expected
    if missing:
        raise TetherError(
            f"{path.name}: parts of {name} are declared and not stored; the file is damaged or was not written to its end"
        )


def _check_chunks(column: h5py.Dataset, name: str, chunk: int, path: Path) -> None:
    """HDF5 inflates a chunk to its end, whatever size it should have. One that could fill the memory is tried in small steps."""
    harmless = (available_memory() or 2**32) // (4 * MOST_COMPRESSED)
    if column.id.get_storage_size() <= harmless:
        return
    chunks: list[h5py.h5d.StoreInfo] = []
    column.id.chunk_iter(chunks.append)
    for info in chunks:
        if info.size > harmless:
            _, compressed = column.id.read_direct_chunk(info.chunk_offset)
            if _inflates_beyond(compressed, chunk):
                raise TetherError(
                    f"{path.name}: a chunk of {name} holds more than the {spelt_size(chunk)} it declares; made to harm"
                )


def _inflates_beyond(compressed: bytes, limit: int) -> bool:
    stream, total = zlib.decompressobj(), 0
    try:
        while compressed and total <= limit:
            total += len(stream.decompress(compressed, UNQUESTIONED))
            compressed = stream.unconsumed_tail
    except zlib.error:  # damaged, or its filter was skipped: HDF5 will say
        return False
    return total > limit


def spelt_size(count: int) -> str:
    """`8.8 TB`, in powers of ten."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.0f} PB"
