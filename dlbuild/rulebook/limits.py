"""The sets of element types that rules name, and the least and greatest value of each type."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.value import Type

DTYPE_SETS: Mapping[str, frozenset[str]] = {
    "float": frozenset(d.name for d in DTYPES.values() if d.kind == "float"),
    "int": frozenset(d.name for d in DTYPES.values() if d.kind in {"int", "uint"}),
}
"""What `dtype: float` and `dtype: int` stand for; a single type is its own set."""

_NARROW_FLOATS = {
    "float8e4m3fn": (-448.0, 448.0),
    "float8e4m3fnuz": (-240.0, 240.0),
    "float8e5m2": (-57344.0, 57344.0),
    "float8e5m2fnuz": (-57344.0, 57344.0),
    "float8e8m0": (0.0, 2.0**127),
    "float4e2m1": (-6.0, 6.0),
}
_TYPE_BITS: Mapping[Type, tuple[int, int]] = {
    "bool": (0, 1),
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


def limits(dtype: str) -> tuple[int | float, int | float]:
    """Return the least and the greatest value of an element type; infinities where it has them."""
    element = DTYPES[dtype]
    match element.kind:
        case "bool":
            return 0, 1
        case "float":
            return _NARROW_FLOATS.get(dtype, (-inf, inf))
        case "uint":
            return 0, 2**element.bits - 1
        case "int":
            return -(2 ** (element.bits - 1)), 2 ** (element.bits - 1) - 1


def type_limits(type_: Type) -> tuple[int, int] | None:
    """Return the least and the greatest value of an integer compute type, None for floats."""
    return _TYPE_BITS.get(type_)
