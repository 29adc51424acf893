"""Typed value expressions: what a rule's step computes for one point of its domain.

One tree serves both readers: `emit.ctext` prints it as C, `rulebook.interpret` evaluates it
with numpy. Types are compute types: int8 and int16 compute as i32, float16 and narrower as f32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dlbuild.rulebook.index import Index

Type = Literal["bool", "i32", "u32", "i64", "u64", "f32", "f64"]

RANK: tuple[Type, ...] = ("bool", "i32", "u32", "i64", "u64", "f32", "f64")
"""Of two operands the one later in this list gives the type of the result."""

COMPUTE_TYPE: dict[str, Type] = {
    "bool": "bool",
    **dict.fromkeys(("int2", "int4", "int8", "int16", "int32"), "i32"),
    **dict.fromkeys(("uint2", "uint4", "uint8", "uint16"), "i32"),
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "float64": "f64",
    **dict.fromkeys(("float32", "float16", "bfloat16"), "f32"),
    **dict.fromkeys(
        ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0"), "f32"
    ),
    "float4e2m1": "f32",
}
"""The type in which a stored element takes part in an expression."""

STORED_TYPE: dict[Type, str] = {
    "bool": "bool",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "f32": "float32",
    "f64": "float64",
}
"""The element type that keeps a value of a compute type as it is."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number known at build time."""

    number: int | float | bool
    type: Type


@dataclass(frozen=True, slots=True)
class Read:
    """The element that an access addresses at this point."""

    access: str
    type: Type


@dataclass(frozen=True, slots=True)
class Local:
    """A variable of the nest: a `let`, or a fold variable."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Position:
    """An index map used as a number (`index(e)` in a rule)."""

    index: Index
    type: Type = "i32"


@dataclass(frozen=True, slots=True)
class Offset:
    """The element number, in the model's own order, that an access addresses (`offset(x)`)."""

    access: str
    type: Type = "i32"


@dataclass(frozen=True, slots=True)
class Unary:
    """`-` `not` `~` applied to one value."""

    operator: Literal["-", "not", "~"]
    value: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic and bit operators. `/` on integers truncates (ONNX Div); `//` and `%` round to
    minus infinity; a shift by the width or more, or by a negative number, leaves sign bits alone
    (0, or -1 to the right of a negative number: ONNX BitShift); signed overflow wraps. Operands
    have type `type`.
    """

    operator: Literal["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>"]
    left: Expr
    right: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison; both sides have one type."""

    operator: Literal["==", "!=", "<", "<=", ">", ">="]
    left: Expr
    right: Expr
    type: Type = "bool"


@dataclass(frozen=True, slots=True)
class Logic:
    """`and` or `or` over truths."""

    operator: Literal["and", "or"]
    parts: tuple[Expr, ...]
    type: Type = "bool"


@dataclass(frozen=True, slots=True)
class Choose:
    """`then if test else other`."""

    test: Expr
    then: Expr
    other: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion between compute types. Float to integer truncates and saturates; to bool it is
    whether the value differs from 0.
    """

    value: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A named function of `FUNCTIONS`; arguments are already of the types it takes."""

    function: str
    arguments: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Lookup:
    """An element, at a computed place, of a one-dimensional operand made by the build or of one of
    the nest's own `tables`.
    """

    access: str
    at: Expr
    type: Type


Expr = (
    Number
    | Read
    | Local
    | Position
    | Offset
    | Unary
    | Binary
    | Compare
    | Logic
    | Choose
    | Cast
    | Call
    | Lookup
)

FIXED_LIMIT = 1 << 30
"""The greatest magnitude that `scale_fixed` gives."""

FUNCTIONS: dict[str, int] = {
    # name: number of arguments. Meaning is numpy's function of the same name in the type of the
    # arguments, unless said here.
    **dict.fromkeys(("abs", "exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan"), 1),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 1),
    **dict.fromkeys(("floor", "ceil", "trunc", "erf", "isnan", "isinf"), 1),
    "round": 1,  # half to even
    **dict.fromkeys(("pow", "fmod", "atan2"), 2),
    **dict.fromkeys(("min", "max"), 2),  # NaN if either is NaN, as in numpy
    "saturate": 3,  # value, low, high: float or integer value limited to [low, high]
    # value i32, multiplier i32, shift i32 (1..62): (value * multiplier + 2^(shift-1)) >> shift
    # in 64 bits, one rounding, half up; limited to +-FIXED_LIMIT: room for a zero point.
    "scale_fixed": 3,
    # value i32, shift i32 (1..30): (value + 2^(shift-1)) >> shift, half up; no 64 bits needed as
    # long as the value is below 2^31 - 2^(shift-1).
    "shift_round": 2,
    # numerator, denominator > 0 (one integer type): nearest integer, half away from zero.
    "divide_round": 2,
    # f64 to i32, build-time only (`constants:` of a rule): the multiplier and the shift of
    # scale_fixed that stand for a real number; the multiplier has 31 significant bits.
    "fixed_multiplier": 1,
    "fixed_shift": 1,
}


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and every expression inside it, outermost first."""
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        yield one
        names = _INNER.get(type(one))
        if names is None:
            continue
        parts: list[Expr] = []
        for name in names:
            part = getattr(one, name)
            if isinstance(part, tuple):
                parts += part
            else:
                parts.append(part)
        waiting += reversed(parts)


_INNER: dict[type, tuple[str, ...]] = {
    Unary: ("value",),
    Binary: ("left", "right"),
    Compare: ("left", "right"),
    Logic: ("parts",),
    Choose: ("test", "then", "other"),
    Cast: ("value",),
    Call: ("arguments",),
    Lookup: ("at",),
}
"""The fields that hold expressions."""
