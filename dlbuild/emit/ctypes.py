"""The C types of stored elements and of values in expressions."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.rulebook.value import Type

STORAGE: Final[dict[str, str]] = {
    "bool": "bool",
    **{f"int{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
}
"""The C type of one stored element, by element type."""

COMPUTE: Final[dict[Type, str]] = {
    "bool": "bool",
    "i32": "int32_t",
    "u32": "uint32_t",
    "i64": "int64_t",
    "u64": "uint64_t",
    "f32": "float",
    "f64": "double",
}
"""The C type of a value in an expression."""

LIMITS: Final[dict[Type, tuple[int, int]]] = {
    "bool": (0, 1),
    "i32": (-(1 << 31), (1 << 31) - 1),
    "u32": (0, (1 << 32) - 1),
    "i64": (-(1 << 63), (1 << 63) - 1),
    "u64": (0, (1 << 64) - 1),
}
"""What the integer compute types hold."""


def storage(dtype: str, tensor: str) -> str:
    """Return the C type in which elements of `dtype` are stored.

    Raises:
        UserError: the element type cannot be printed yet; names it and the tensor.
    """
    if dtype in STORAGE:
        return STORAGE[dtype]
    raise UserError(
        f"tensor '{tensor}' has elements of type {dtype}, which generated C cannot hold yet",
        why="kernels read and write bool, the integers of 8 to 64 bits, float32 and float64",
        fix="convert the model to one of these types",
    )


def number(value: float, kind: Type) -> str:
    """Return a literal of a compute type that gives exactly `value`."""
    match kind:
        case "bool":
            return "true" if value else "false"
        case "f32" | "f64":
            return _real(float(value), kind)
        case "i32" | "i64":
            return _signed(int(value), kind)
        case "u32":
            return f"{int(value)}U"
        case "u64":
            return f"UINT64_C({int(value)})"


def _signed(value: int, kind: Type) -> str:
    bits = kind[1:]
    if value == LIMITS[kind][0]:
        return f"INT{bits}_MIN"
    if value == LIMITS[kind][1]:
        return f"INT{bits}_MAX"
    if kind == "i32":
        return str(value)
    return f"INT64_C({value})" if value >= 0 else f"-INT64_C({-value})"


def _real(value: float, kind: Type) -> str:
    """Return the shortest decimal that reads back as the same number."""
    if math.isnan(value):
        return "NAN" if kind == "f32" else "(double)NAN"
    if math.isinf(value):
        text = "INFINITY" if kind == "f32" else "(double)INFINITY"
        return text if value > 0 else f"-{text}"
    if kind == "f64":
        return repr(value)
    text = str(np.float32(value))
    return f"{text}F"
