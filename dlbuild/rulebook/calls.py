"""The functions of value expressions: the types of their arguments and of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from dlbuild.rulebook.known import (
    FLOATS,
    Known,
    Typed,
    common_type,
    finish,
    pair,
    to_type,
    truth_of,
)
from dlbuild.rulebook.pack import FUNCTIONS as SIZE_FUNCTIONS
from dlbuild.rulebook.pack import ExpressionError
from dlbuild.rulebook.value import FUNCTIONS, RANK, Call, Type

_ROUNDINGS = frozenset(("floor", "ceil", "trunc", "round"))
_UNSIGNED = frozenset(("u32", "u64", "bool"))


def call(name: str, arguments: tuple[Typed, ...]) -> Typed:
    """Return a function's value, or the argument where the function changes nothing.

    Raises:
        ExpressionError: no such function, or the wrong number of arguments.
    """
    if name not in FUNCTIONS and name not in RANK:
        raise ExpressionError(f"there is no function '{name}'")
    wanted = FUNCTIONS.get(name, 1)
    is_chain = name in {"min", "max"}
    if len(arguments) != wanted and not (is_chain and len(arguments) > wanted):
        raise ExpressionError(f"{name}() takes {wanted} values, not {len(arguments)}")
    if name in RANK:
        return _cast(name, arguments[0])
    if special := _SPECIAL.get(name):
        return special(name, arguments)
    return _real(name, arguments)


def _cast(type_: Type, value: Typed) -> Typed:
    if type_ == "bool":
        test = truth_of(value)
        return Known(test) if isinstance(test, bool) else test
    return to_type(value, type_)


def _real(name: str, arguments: tuple[Typed, ...]) -> Typed:
    """Return a function of real numbers; integers are computed as f32, f64 stays f64."""
    type_ = common_type(*arguments)
    if type_ not in FLOATS:
        type_ = "f32"
    return Call(name, tuple(to_type(value, type_) for value in arguments), type_)


def _extreme(name: str, arguments: tuple[Typed, ...]) -> Typed:
    return reduce(lambda a, b: _extreme_of(name, a, b), arguments)


def _extreme_of(name: str, left: Typed, right: Typed) -> Typed:
    if isinstance(left, Known) and isinstance(right, Known):
        return Known(SIZE_FUNCTIONS[name](left.term, right.term))
    a, b = pair(left, right)
    return Call(name, (a, b), a.type)


def _absolute(name: str, arguments: tuple[Typed, ...]) -> Typed:
    value = finish(arguments[0])
    return value if value.type in _UNSIGNED else Call(name, (value,), value.type)


def _rounding(name: str, arguments: tuple[Typed, ...]) -> Typed:
    value = finish(arguments[0])
    return Call(name, (value,), value.type) if value.type in FLOATS else value


def _is_special(name: str, arguments: tuple[Typed, ...]) -> Typed:
    value = finish(arguments[0])
    return Call(name, (value,), "bool") if value.type in FLOATS else Known(term=False)


def _power(name: str, arguments: tuple[Typed, ...]) -> Typed:
    """Return a power; of two integers in f64, where each result up to 2^53 is exact."""
    type_ = common_type(*arguments)
    if type_ not in FLOATS:
        type_ = "f64"
    return Call(name, tuple(to_type(value, type_) for value in arguments), type_)


def _same_type(name: str, arguments: tuple[Typed, ...]) -> Typed:
    type_ = common_type(*arguments)
    if type_ == "bool":
        type_ = "i32"
    return Call(name, tuple(to_type(value, type_) for value in arguments), type_)


def _in_i32(name: str, arguments: tuple[Typed, ...]) -> Typed:
    return Call(name, tuple(to_type(value, "i32") for value in arguments), "i32")


def _of_real(name: str, arguments: tuple[Typed, ...]) -> Typed:
    return Call(name, (to_type(arguments[0], "f64"),), "i32")


_SPECIAL: Mapping[str, Callable[[str, tuple[Typed, ...]], Typed]] = {
    "abs": _absolute,
    "min": _extreme,
    "max": _extreme,
    "pow": _power,
    "fmod": _same_type,
    "saturate": _same_type,
    "divide_round": _same_type,
    "scale_fixed": _in_i32,
    "shift_round": _in_i32,
    "fixed_multiplier": _of_real,
    "fixed_shift": _of_real,
    "isnan": _is_special,
    "isinf": _is_special,
    **dict.fromkeys(_ROUNDINGS, _rounding),
}
