"""The one draw that acting needs: JAX's standard normal numbers of `jax.random.key(0)`, in NumPy.

Policies have no chance in them, but two kinds choose among samples that are drawn the same at each call. The bits are
Threefry-2x32's of 20 rounds (Salmon et al. 2011) of each number's place; normal numbers are made of them by Giles's
approximation of the inverse error function (2010) in single precision, as XLA makes them.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_CENTRAL: tuple[float, ...] = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087)
_CENTRAL += (-0.00125372503, -0.00417768164, 0.246640727, 1.50140941)
_TAIL: tuple[float, ...] = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773)
_TAIL += (-0.0076224613, 0.00943887047, 1.00167406, 2.83297682)


@cache
def standard_normal(rows: int, columns: int) -> np.ndarray:
    """`jax.random.normal(jax.random.key(0), (rows, columns))`, read-only."""
    places = np.arange(rows * columns, dtype=np.uint64)
    first, second = _threefry((places >> np.uint64(32)).astype(np.uint32), places.astype(np.uint32))
    bits = first ^ second
    unit = ((bits >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1.0)
    low = np.nextafter(np.float32(-1.0), np.float32(0.0))
    uniform = np.maximum(low, unit * (np.float32(1.0) - low) + low)
    found = (np.float32(math.sqrt(2.0)) * _inverse_error_function(uniform)).astype(np.float32).reshape(rows, columns)
    found.setflags(write=False)
    return found


def _threefry(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The block cipher with a key of two zeros."""
    keys = tuple(np.uint32(key) for key in (0, 0, _PARITY))
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            first = first + second
            second = (second << np.uint32(rotation)) | (second >> np.uint32(32 - rotation))
            second = second ^ first
        first = first + keys[(block + 1) % 3]
        second = second + np.uint32((int(keys[(block + 2) % 3]) + block + 1) & 0xFFFFFFFF)
    return first, second


def _inverse_error_function(x: np.ndarray) -> np.ndarray:
    w = -np.log1p(-x * x)
    central, tail = w - np.float32(2.5), np.sqrt(w) - np.float32(3.0)
    return np.where(w < 5.0, _polynomial(_CENTRAL, central), _polynomial(_TAIL, tail)) * x


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    value = np.full_like(x, np.float32(coefficients[0]))
    for coefficient in coefficients[1:]:
        value = value * x + np.float32(coefficient)
    return value
