"""The operators and functions of value expressions in numpy: twins of `templates/helpers`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dlbuild.rulebook.value import FIXED_LIMIT, Type

Array = NDArray[Any]  # Any: one of the compute types, known at run time only

NUMPY: Final[dict[Type, np.dtype[np.generic]]] = {
    "bool": np.dtype(np.bool_),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""The array type in which each compute type is calculated."""

GREATEST_SHIFT = 62
MULTIPLIER_BITS = 31


def is_float(kind: Type) -> bool:
    """Tell whether a compute type is a floating-point one."""
    return kind in ("f32", "f64")


def convert(value: Array, kind: Type) -> Array:
    """Convert between compute types: float to integer truncates and saturates, NaN gives 0."""
    target = NUMPY[kind]
    if value.dtype == target:
        return value
    if kind == "bool":
        return np.asarray(value != 0)
    if value.dtype.kind != "f" or is_float(kind):
        return value.astype(target)
    limits = np.iinfo(target.name)
    wide = np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    low, high = wide <= float(limits.min), wide >= float(limits.max)
    inside = np.where(low | high, 0.0, wide).astype(target)
    return np.where(low, target.type(limits.min), np.where(high, target.type(limits.max), inside))


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    quotient = np.floor_divide(a, b)
    is_below = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    return np.where(is_below, quotient + a.dtype.type(1), quotient)


def _floor_divide(a: Array, b: Array) -> Array:
    return np.asarray(np.floor(a / b) if a.dtype.kind == "f" else np.floor_divide(a, b))


def _shift(a: Array, b: Array, function: Callable[[Array, Array], Array]) -> Array:
    width = a.dtype.itemsize * 8
    is_small = (b >= 0) & (b < width)
    shifted = function(a, np.where(is_small, b, b.dtype.type(0)))
    keeps_sign = (a < 0) & (function is np.right_shift)
    return np.where(is_small, shifted, np.where(keeps_sign, -1, 0).astype(a.dtype))


BINARY: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divide,
    "//": _floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": lambda a, b: _shift(a, b, np.left_shift),
    ">>": lambda a, b: _shift(a, b, np.right_shift),
}
"""Both operands and the result have one type; integers wrap around."""

COMPARE: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def saturate(value: Array, low: Array, high: Array) -> Array:
    """Limit `value` to [low, high]; NaN gives `low`."""
    return np.where(value > low, np.where(value < high, value, high), low)


def scale_fixed(value: Array, multiplier: Array, shift: Array) -> Array:
    """Return (value * multiplier + 2^(shift - 1)) >> shift, limited to [-2^30, 2^30]."""
    wide = value.astype(np.int64) * multiplier.astype(np.int64)
    places = shift.astype(np.int64)
    rounded = (wide + (np.int64(1) << (places - 1))) >> places
    return np.asarray(np.clip(rounded, -FIXED_LIMIT, FIXED_LIMIT)).astype(np.int32)


def shift_round(value: Array, shift: Array) -> Array:
    """Return (value + 2^(shift - 1)) >> shift without overflow; shift is in 1..31."""
    wide = value.astype(np.int64)
    places = shift.astype(np.int64)
    return ((wide + (np.int64(1) << (places - 1))) >> places).astype(np.int32)


def divide_round(numerator: Array, denominator: Array) -> Array:
    """Return the nearest integer to the quotient, half away from zero; denominator > 0."""
    quotient = _divide(numerator, denominator)
    rest = numerator - quotient * denominator
    up = (rest > 0) & (rest >= denominator - rest)
    down = (rest < 0) & (-rest >= denominator + rest)
    one = numerator.dtype.type(1)
    return np.where(up, quotient + one, np.where(down, quotient - one, quotient))


def fixed_point(real: float) -> tuple[int, int]:
    """Return (multiplier, shift) with real = multiplier / 2^shift to 31 significant bits.

    The shift is in 1..62: numbers of 2^30 and more saturate, those below 2^-31 lose bits.
    """
    mantissa, exponent = math.frexp(real)
    shift = MULTIPLIER_BITS - exponent
    multiplier = round(mantissa * 2**MULTIPLIER_BITS)
    if abs(multiplier) == 2**MULTIPLIER_BITS:
        multiplier //= 2
        shift -= 1
    if multiplier == 0:
        return 0, 1
    if shift > GREATEST_SHIFT:
        return round(math.ldexp(real, GREATEST_SHIFT)), GREATEST_SHIFT
    if shift < 1:
        return (2**MULTIPLIER_BITS - 1 if real > 0 else -(2**MULTIPLIER_BITS)), 1
    return multiplier, shift


def _by_element(function: Callable[..., float]) -> Callable[..., Array]:
    """Return a function over arrays that calls `function` on Python floats.

    The platform's scalar libm in double, rounded once, gives one result wherever the weight
    table is made; numpy's vector loops differ between processors.
    """

    def guarded(*arguments: float) -> float:
        try:
            return function(*arguments)
        except OverflowError:
            return _infinity(function, *arguments)
        except ValueError:
            return _outside_the_domain(function, *arguments)

    ufunc = np.frompyfunc(guarded, function_arity(function), 1)

    def over_arrays(*arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            wide = [a.astype(np.float64) for a in arrays]
            return np.asarray(ufunc(*wide), dtype=np.float64).astype(arrays[0].dtype)

    return over_arrays


def function_arity(function: Callable[..., float]) -> int:
    """Return how many arguments a function of `math` takes here."""
    return 2 if function in (math.pow, math.fmod, math.atan2) else 1


def _is_odd(number: float) -> bool:
    return math.fmod(number, 2.0) in (1.0, -1.0)


def _infinity(function: Callable[..., float], *arguments: float) -> float:
    """Return what C gives where the result is too great."""
    x = arguments[0]
    is_negative = (function is math.sinh and x < 0) or (
        function is math.pow and x < 0 and _is_odd(arguments[1])
    )
    return -math.inf if is_negative else math.inf


def _outside_the_domain(function: Callable[..., float], *arguments: float) -> float:
    """Return what C gives where Python's math raises."""
    x = arguments[0]
    if function is math.log and x == 0:
        return -math.inf
    if function is math.atanh and abs(x) == 1:
        return math.copysign(math.inf, x)
    if function is math.pow and x == 0:
        return math.copysign(math.inf, x) if _is_odd(arguments[1]) else math.inf
    return math.nan


def _rounding(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda a: np.asarray(function(a)) if a.dtype.kind == "f" else a


def _truth(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda a: np.asarray(function(a)) if a.dtype.kind == "f" else np.zeros(a.shape, np.bool_)


def _fixed(part: int) -> Callable[[Array], Array]:
    def over_array(value: Array) -> Array:
        flat = [fixed_point(float(v))[part] for v in value.ravel()]
        return np.array(flat, np.int32).reshape(value.shape)

    return over_array


FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "trunc": _rounding(np.trunc),
    "round": _rounding(np.rint),
    "isnan": _truth(np.isnan),
    "isinf": _truth(np.isinf),
    "fmod": np.fmod,
    "min": np.minimum,
    "max": np.maximum,
    "saturate": saturate,
    "scale_fixed": scale_fixed,
    "shift_round": shift_round,
    "divide_round": divide_round,
    "fixed_multiplier": _fixed(0),
    "fixed_shift": _fixed(1),
    "exp": _by_element(math.exp),
    "log": _by_element(math.log),
    "sin": _by_element(math.sin),
    "cos": _by_element(math.cos),
    "tan": _by_element(math.tan),
    "asin": _by_element(math.asin),
    "acos": _by_element(math.acos),
    "atan": _by_element(math.atan),
    "sinh": _by_element(math.sinh),
    "cosh": _by_element(math.cosh),
    "tanh": _by_element(math.tanh),
    "asinh": _by_element(math.asinh),
    "acosh": _by_element(math.acosh),
    "atanh": _by_element(math.atanh),
    "erf": _by_element(math.erf),
    "pow": _by_element(math.pow),
    "atan2": _by_element(math.atan2),
}
"""The functions of `value.FUNCTIONS`; arguments are of the types they take."""
