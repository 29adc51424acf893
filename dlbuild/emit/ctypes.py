"""The C types of stored elements and of values in expressions."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.value import Type

BYTE_BITS = 8

STORAGE: Final[dict[str, str]] = {
    "bool": "bool",
    **{f"int{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    **dict.fromkeys((d.name for d in DTYPES.values() if d.bits < BYTE_BITS), "uint8_t"),
    **dict.fromkeys((name for name in DTYPES if name.startswith("float8")), "uint8_t"),
}
"""The C type of one stored unit, by element type: an element, or a byte of several."""

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


def is_packed(dtype: str) -> bool:
    """Tell whether several elements lie in a byte; `load_` and `store_` helpers reach them."""
    return DTYPES[dtype].bits < BYTE_BITS


def is_encoded(dtype: str) -> bool:
    """Tell whether an element has no C type of its own; helpers convert it from and to float."""
    return DTYPES[dtype].kind == "float" and dtype not in ("float32", "float64")


def units(dtype: str, count: int) -> int:
    """Return how many stored units `count` elements take."""
    return DTYPES[dtype].size_bytes(count) if is_packed(dtype) else count


def storage(dtype: str) -> str:
    """Return the C type in which elements of `dtype` are stored."""
    return STORAGE[dtype]


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
