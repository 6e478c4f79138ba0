"""Ways to damage a D4RL file: bytes of it, and what its columns and attributes are."""

from __future__ import annotations

import random
from collections.abc import Callable

import h5py
import numpy as np

Damage = Callable[[h5py.File], None]

# Sizes and addresses that a damaged header may hold, in eight bytes.
_EXTREMES = (0, 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1)


def with_changed_bytes(content: bytes, rng: random.Random) -> bytes:
    """A few changes, most of them near the start, where small HDF5 files keep what is not data."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        zone = rng.choice([len(changed), min(len(changed), 4_096), min(len(changed), 12_000)])
        place = rng.randrange(zone)
        kind = rng.choice(["bit", "byte", "edge", "number", "copy", "cut"])
        if kind == "bit":
            changed[place] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            changed[place] = rng.randrange(256)
        elif kind == "edge":
            changed[place] = rng.choice([0, 1, 127, 128, 255])
        elif kind == "number":
            number = rng.choice([*_EXTREMES, rng.randrange(len(changed))])
            changed[place : place + 8] = number.to_bytes(8, "little")
        elif kind == "copy":
            source, length = rng.randrange(zone), rng.choice([4, 8, 16, 64])
            changed[place : place + length] = changed[source : source + length]
        elif rng.random() < 0.1:
            del changed[max(place, 1) :]
    return bytes(changed)


def _replaced(name: str, make: Callable[[h5py.File, np.ndarray], object]) -> Damage:
    """The column taken out and something else put in its place."""

    def damage(file: h5py.File) -> None:
        values = file[name][...]
        del file[name]
        made = make(file, values)
        if made is not None:
            file[name] = made

    return damage


def _declared(name: str, shape: tuple[int, ...], **options: object) -> Damage:
    """A column that declares a shape and stores nothing."""

    def make(file: h5py.File, values: np.ndarray) -> None:
        file.create_dataset(name, shape=shape, dtype="f4", **options)

    return _replaced(name, make)


def _typed(dtype: object) -> Damage:
    """Rewards as numbers of another type; where the type has no numbers, declared and never written."""

    def make(file: h5py.File, values: np.ndarray) -> None:
        numbers = isinstance(dtype, str) and np.dtype(dtype).kind in "fiubc"
        file.create_dataset("rewards", shape=values.shape, dtype=dtype, data=values.astype(dtype) if numbers else None)

    return _replaced("rewards", make)


def _all_declared(file: h5py.File) -> None:
    """Every column with the same number of rows, more than any disk has."""
    for name in [name for name in file if isinstance(file[name], h5py.Dataset)]:
        shape, kind = (2**40, *file[name].shape[1:]), file[name].dtype
        del file[name]
        file.create_dataset(name, shape=shape, dtype=kind, chunks=(2**20, *shape[1:]), compression="gzip")


def _half_written(file: h5py.File) -> None:
    rows = len(file["rewards"])
    del file["rewards"]
    file.create_dataset("rewards", shape=(rows,), dtype="f4", chunks=(10,))[:20] = 1.0


def _in_large_chunks(file: h5py.File, values: np.ndarray) -> None:
    file.create_dataset("rewards", shape=(len(values),), dtype="f4", chunks=(2**29,), maxshape=(None,))


def _swapped(one: str, other: str) -> Damage:
    def damage(file: h5py.File) -> None:
        file.move(one, "between")
        file.move(other, one)
        file.move("between", other)

    return damage


def _attribute(name: str, value: object) -> Damage:
    def damage(file: h5py.File) -> None:
        file.attrs[name] = value

    return damage


def _external_storage(file: h5py.File) -> None:
    rows = len(file["rewards"])
    del file["rewards"]
    file.create_dataset("rewards", shape=(rows,), dtype="f4", external=[("/dev/zero", 0, 4 * rows)])


def _virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(file["rewards"].shape, "f4")
    layout[...] = h5py.VirtualSource("/etc/passwd", "rewards", file["rewards"].shape)
    del file["rewards"]
    file.create_virtual_dataset("rewards", layout)


def _own_ancestor(file: h5py.File) -> None:
    file["round"] = file["/"]
    del file["actions"]
    file["actions"] = file["round"]


def _deep(file: h5py.File) -> None:
    file.move("rewards", "/".join(["group"] * 300) + "/rewards")


def _unknown_filter(file: h5py.File) -> None:
    rows = len(file["rewards"])
    del file["rewards"]
    options = {"dtype": "f4", "chunks": (rows,), "compression": 32_001, "allow_unknown_filter": True}
    file.create_dataset("rewards", shape=(rows,), **options).id.write_direct_chunk((0,), bytes(4 * rows))


def _reference(file: h5py.File) -> None:
    file.attrs["env_id"] = file["rewards"].regionref[:2]


def _many_attributes(file: h5py.File) -> None:
    for number in range(1_500):
        file.attrs[f"attribute {number}"] = number


STRUCTURAL: dict[str, Damage] = {
    **{f"columns swapped: {a}, {b}": _swapped(a, b) for a, b in [("observations", "actions"), ("rewards", "terminals")]},
    "columns swapped: terminals, timeouts": _swapped("terminals", "timeouts"),
    **{
        f"type {np.dtype(dtype)}": _typed(dtype)
        for dtype in ("f2", ">f8", "i1", "u8", "c8", "S4", "V3", "longdouble", "bool", [("a", "f4")], ("f4", (3,)))
    },
    "type text": _typed(h5py.string_dtype()),
    "type list": _typed(h5py.vlen_dtype(np.float32)),
    "type reference": _typed(h5py.ref_dtype),
    "type region": _typed(h5py.regionref_dtype),
    "type enumeration": _typed(h5py.enum_dtype({"A": 5, "B": 7}, basetype="i4")),
    "every column declares petabytes": _all_declared,
    "half of a column is not written": _half_written,
    "declared petabytes": _declared("observations", (2**40, 512), chunks=(1024, 512), compression="gzip"),
    "declared petabytes, not chunked": _declared("observations", (2**40, 512)),
    "declared more than 64 bits count": _declared("observations", (2**40, 2**30), chunks=(1, 1024)),
    "declared gigabytes of rewards": _declared("rewards", (2**31,), chunks=(2**20,)),
    "chunks of gigabytes": _replaced("rewards", _in_large_chunks),
    "no rows": _declared("observations", (0, 11), maxshape=(None, 11), chunks=(1, 11)),
    "five axes": _declared("actions", (3, 3, 3, 3, 3)),
    "a scalar": _replaced("rewards", lambda file, values: np.float32(1.0)),
    "an empty dataspace": _replaced("rewards", lambda file, values: h5py.Empty("f4")),
    "a type in place of a column": _replaced("rewards", lambda file, values: np.dtype("f4")),
    "transposed": _replaced("observations", lambda file, values: values.T),
    "NaN": _replaced("rewards", lambda file, values: np.full(values.shape, np.nan)),
    "beyond float32": _replaced("rewards", lambda file, values: np.full(values.shape, 1e300)),
    "flags of a half": _replaced("terminals", lambda file, values: np.full(values.shape, 0.5)),
    "all terminal": _replaced("terminals", lambda file, values: np.ones(values.shape)),
    "no column": lambda file: file.clear(),
    "a group in place of a column": _replaced("rewards", lambda file, values: file.create_group("rewards") and None),
    "columns in a deep group": _deep,
    "a group inside itself": _own_ancestor,
    "external link to nowhere": _replaced("rewards", lambda file, values: h5py.ExternalLink("gone.hdf5", "/rewards")),
    "external link to a device": _replaced("rewards", lambda file, values: h5py.ExternalLink("/dev/zero", "/rewards")),
    "external link in place of timeouts": _replaced("timeouts", lambda file, values: h5py.ExternalLink("gone.hdf5", "/x")),
    "soft link to itself": _replaced("rewards", lambda file, values: h5py.SoftLink("/rewards")),
    "soft link in place of timeouts": _replaced("timeouts", lambda file, values: h5py.SoftLink("/nowhere")),
    "soft link in the file": _replaced("rewards", lambda file, values: h5py.SoftLink("/terminals")),
    "stored in a device": _external_storage,
    "virtual": _virtual,
    "an unknown filter": _unknown_filter,
    "returns in a link": lambda file: file.create_group("tether").__setitem__("episode_returns", h5py.SoftLink("/rewards")),
    "returns behind a link": lambda file: file.__setitem__("tether", h5py.ExternalLink("gone.hdf5", "/")),
    "returns that do not fit": lambda file: file.__setitem__("tether/episode_returns", np.zeros(7)),
    "environment that imports code": _attribute("env_id", "os:system-v0"),
    "environment of two lines": _attribute("env_id", "Hopper-v4\nHopper-v5"),
    "environment of a megabyte": _attribute("env_id", "/" * 1_000_000),
    "type of many fields": _typed([(f"field {number}\n", "f4") for number in range(500)]),
    "environment that is a region": _reference,
    "environment that is a structure": _attribute("env_id", np.zeros(3, dtype=[("a", "f4")])),
    "environment of no text": _attribute("env_id", np.bytes_(b"\xff\xfe")),
    "bounds of another size": _attribute("action_low", np.zeros(5)),
    "bounds that are text": _attribute("action_high", "high"),
    "many attributes": _many_attributes,
    "provenance nested deeply": _attribute("provenance", '{"a":' * 100_000),
    "provenance of no JSON": _attribute("provenance", "{\x1b[31m"),
    "provenance that is empty": _attribute("provenance", h5py.Empty("f4")),
}
