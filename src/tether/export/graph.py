"""The functions of NumPy that `tether.runtime` uses, on values of an ONNX graph: calling one adds a node.

jax2onnx 0.17 was tried first. It turns the draw of `best-of-samples` into ONNX's own random numbers, which are others at each
call, and cannot convert the bonuses that count. What the runtime computes is plain enough to be written down as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

BITS_OPSET = 26  # has BitCast, which only count-exact needs
OPSET = 18  # has reductions with axes as an input, and bitwise operations


class Graph:
    """The nodes and constants of a graph that is being written down; and what stands for the module `numpy`."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[tuple[Any, ...], tuple[str, np.ndarray]] = {}
        self.opset = OPSET
        self._names = 0

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = (f"c{len(self.constants)}", array)
        return self.constants[key][0]

    def node(self, kind: str, inputs: Sequence[Any], shape: tuple[int | None, ...], dtype: Any, **attributes: Any) -> Value:
        from onnx import helper

        name = f"v{self._names}"
        self._names += 1
        names = [entry.name if isinstance(entry, Value) else self.constant(entry) for entry in inputs]
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return Value(self, name, shape, np.dtype(dtype))

    # The functions of NumPy.

    def tanh(self, x: Value) -> Value:
        return self.node("Tanh", [x], x.shape, x.dtype)

    def exp(self, x: Value) -> Value:
        return self.node("Exp", [x], x.shape, x.dtype)

    def log(self, x: Value) -> Value:
        return self.node("Log", [x], x.shape, x.dtype)

    def sqrt(self, x: Value) -> Value:
        return self.node("Sqrt", [x], x.shape, x.dtype)

    def abs(self, x: Value) -> Value:
        return self.node("Abs", [x], x.shape, x.dtype)

    def maximum(self, x: Value, y: Any) -> Value:
        return self.node("Max", [x, y], _joint(x, y), x.dtype)

    def minimum(self, x: Value, y: Any) -> Value:
        return self.node("Min", [x, y], _joint(x, y), x.dtype)

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        typed = x if isinstance(x, Value) else y if isinstance(y, Value) else np.asarray(x)
        shape = np.broadcast_shapes(*(_known(entry) for entry in (condition, x, y)))
        return self.node("Where", [condition, x, y], _unknown(shape, condition, x, y), typed.dtype)

    def concatenate(self, parts: Sequence[Value], axis: int) -> Value:
        assert axis == -1
        total = sum(part.shape[-1] or 0 for part in parts)
        return self.node("Concat", list(parts), (*parts[0].shape[:-1], total), parts[0].dtype, axis=-1)

    def sum(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        return self._reduced("ReduceSum", x, axis, keepdims)

    def max(self, x: Value, axis: int, keepdims: bool = False) -> Value:
        return self._reduced("ReduceMax", x, axis, keepdims)

    def argmax(self, x: Value, axis: int) -> Value:
        return self.node("ArgMax", [x], _without(x.shape, axis, False), np.int64, axis=axis, keepdims=0)

    def take(self, array: np.ndarray, places: Value) -> Value:
        return self.node("Gather", [array, places], places.shape, array.dtype, axis=0)

    def bits(self, x: Value) -> Value:
        from onnx import TensorProto

        self.opset = BITS_OPSET
        bits = self.node("BitCast", [x], x.shape, np.uint32, to=TensorProto.UINT32)
        return bits.as_type(np.int64)

    def _reduced(self, kind: str, x: Value, axis: int, keepdims: bool) -> Value:
        shape = _without(x.shape, axis, keepdims)
        return self.node(kind, [x, np.array([axis], np.int64)], shape, x.dtype, keepdims=int(keepdims))


@dataclass(frozen=True, eq=False)
class Value:
    """An array that will be there when the graph runs. A size that is not known yet is None: the number of rows."""

    graph: Graph
    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype

    __array_priority__ = 1000  # and ufuncs of NumPy give way to the operators below
    __array_ufunc__ = None

    def _binary(self, kind: str, x: Any, y: Any, dtype: Any = None) -> Value:
        x, y = (entry if isinstance(entry, Value) else np.asarray(entry, self.dtype) for entry in (x, y))
        return self.graph.node(kind, [x, y], _joint(x, y), dtype or self.dtype)

    def __add__(self, other: Any) -> Value:
        return self._binary("Add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self._binary("Add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self._binary("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self._binary("Sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self._binary("Mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self._binary("Mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self._binary("Div", self, other)

    def __neg__(self) -> Value:
        return self.graph.node("Neg", [self], self.shape, self.dtype)

    def __matmul__(self, weight: np.ndarray) -> Value:
        return self.graph.node("MatMul", [self, weight], (*self.shape[:-1], weight.shape[-1]), self.dtype)

    def __gt__(self, other: Any) -> Value:
        return self._binary("Greater", self, other, bool)

    def __lt__(self, other: Any) -> Value:
        return self._binary("Less", self, other, bool)

    def __le__(self, other: Any) -> Value:
        return self._binary("LessOrEqual", self, other, bool)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self._binary("Equal", self, other, bool)

    def __and__(self, other: Any) -> Value:
        return self._binary("And" if self.dtype == bool else "BitwiseAnd", self, other)

    def __xor__(self, other: Any) -> Value:
        return self._binary("BitwiseXor", self, other)

    def __rshift__(self, places: int) -> Value:
        # ONNX shifts numbers without a sign only.
        unsigned = self.as_type(np.uint64)
        return self.graph.node("BitShift", [unsigned, np.uint64(places)], self.shape, np.uint64, direction="RIGHT").as_type(
            np.int64
        )

    def __getitem__(self, index: Any) -> Value:
        """Slices and whole numbers, one an axis, and None for a new axis: as far as the runtime uses them."""
        result, new_axes, axis = self, [], 0
        gone: list[int] = []
        for place, entry in enumerate(index if isinstance(index, tuple) else (index,)):
            if entry is None:
                new_axes.append(place)
                continue
            if isinstance(entry, int):
                result, entry = result._slice(axis, entry, entry + 1), None
                gone.append(axis)
            elif entry != slice(None):
                result = result._slice(axis, entry.start or 0, entry.stop)
            axis += 1
        if gone:
            shape = tuple(size for number, size in enumerate(result.shape) if number not in gone)
            return self.graph.node("Squeeze", [result, np.array(gone, np.int64)], shape, self.dtype)
        if not new_axes:
            return result
        sizes = list(result.shape)
        for place in new_axes:
            sizes.insert(place, 1)
        return self.graph.node("Unsqueeze", [result, np.array(new_axes, np.int64)], tuple(sizes), self.dtype)

    def _slice(self, axis: int, start: int, stop: int | None) -> Value:
        size = self.shape[axis]
        assert size is not None, "the number of rows is not known"
        end = size if stop is None else min(stop, size)
        shape = (*self.shape[:axis], end - start, *self.shape[axis + 1 :])
        bounds = [np.array([entry], np.int64) for entry in (start, end, axis)]
        return self.graph.node("Slice", [self, *bounds], shape, self.dtype)

    def reshape(self, *shape: int) -> Value:
        sizes = tuple(None if size == -1 else size for size in shape)
        return self.graph.node("Reshape", [self, np.array(shape, np.int64)], sizes, self.dtype)

    def as_type(self, dtype: Any) -> Value:
        from onnx import helper

        return self.graph.node("Cast", [self], self.shape, dtype, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _known(entry: Any) -> tuple[int, ...]:
    """Its shape, with 1 for what is not known: that is never stretched."""
    return (
        tuple(1 if size is None else size for size in np.shape(entry) or ())
        if not isinstance(entry, Value)
        else tuple(1 if size is None else size for size in entry.shape)
    )


def _unknown(shape: tuple[int, ...], *entries: Any) -> tuple[int | None, ...]:
    """The shape with what is not known again: always the first axis."""
    unknown = any(isinstance(entry, Value) and entry.shape and entry.shape[0] is None for entry in entries)
    return (None, *shape[1:]) if unknown else shape


def _joint(x: Any, y: Any) -> tuple[int | None, ...]:
    return _unknown(np.broadcast_shapes(_known(x), _known(y)), x, y)


def _without(shape: tuple[int | None, ...], axis: int, keepdims: bool) -> tuple[int | None, ...]:
    axis = axis % len(shape)
    return (*shape[:axis], *((1,) if keepdims else ()), *shape[axis + 1 :])
