"""The operators and functions of value expressions over intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dlbuild.rulebook.arithmetic import BINARY, COMPARE, FUNCTIONS, NUMPY, Array, convert, is_float
from dlbuild.rulebook.range import range_of_dtype
from dlbuild.rulebook.value import Type

RISING = frozenset({"floor", "ceil", "trunc", "round", "min", "max", "sqrt"})
"""Functions that do not fall when one of their arguments grows."""

RISING_IN_FIRST = frozenset({"saturate", "shift_round", "divide_round"})
"""The same, in the first argument, the others being known."""


class Interval(NamedTuple):
    """The least and the greatest that each element can be; one array twice if all are known."""

    low: Array
    high: Array

    @property
    def is_known(self) -> bool:
        """Tell whether each element is one number, as far as this is known without comparing."""
        return self.low is self.high


def known(array: Array) -> Interval:
    """Return the interval of elements that are known."""
    return Interval(array, array)


def each(value: Interval, function: Callable[[Array], Array]) -> Interval:
    """Return both ends of what a function that rises gives."""
    low = function(value.low)
    return known(low) if value.is_known else Interval(low, function(value.high))


def where(test: Array, then: Interval, other: Interval) -> Interval:
    """Return one of two by a test that is known."""
    low = np.where(test, then.low, other.low)
    if then.is_known and other.is_known:
        return known(low)
    return Interval(low, np.where(test, then.high, other.high))


def chosen(test: Interval, then: Interval, other: Interval) -> Interval:
    """Return one of two by a test; both where it may hold and may not."""
    if test.is_known:
        return where(test.low, then, other)
    must, may = test
    low = np.where(must, then.low, np.where(may, np.minimum(then.low, other.low), other.low))
    high = np.where(must, then.high, np.where(may, np.maximum(then.high, other.high), other.high))
    return Interval(low, high)


def compared(relation: str, a: Interval, b: Interval) -> Interval:
    """Return whether it must hold, and whether it may."""
    test = COMPARE[relation]
    if a.is_known and b.is_known:
        return known(np.asarray(test(a.low, b.low)))
    is_one = (a.low == a.high) & (b.low == b.high)
    if relation in ("==", "!="):
        apart = np.asarray((a.high < b.low) | (b.high < a.low))
        equal = is_one & (a.low == b.low)
        return Interval(equal, ~apart) if relation == "==" else Interval(apart, ~equal)
    if relation in ("<", "<="):
        return Interval(np.asarray(test(a.high, b.low)), np.asarray(test(a.low, b.high)))
    return Interval(np.asarray(test(a.low, b.high)), np.asarray(test(a.high, b.low)))


def cast(value: Interval, kind: Type) -> Interval:
    """Return the conversion to a compute type."""
    if value.is_known:
        return known(convert(value.low, kind))
    if value.low.dtype == NUMPY[kind]:
        return value
    if kind == "bool":
        zero = (value.low == 0) & (value.high == 0)
        return Interval((value.low > 0) | (value.high < 0), ~zero)
    ends = Interval(convert(value.low, kind), convert(value.high, kind))
    if is_float(kind) or value.low.dtype.kind == "f":
        return ends  # rounded or saturated: rising
    limits = np.iinfo(NUMPY[kind].name)
    wraps = (value.low < limits.min) | (value.high > limits.max)
    return _unless(wraps, ends, kind)


def stored(value: Interval, dtype: str) -> Interval:
    """Return what is left of a value of the compute type in an element."""
    bounds = range_of_dtype(dtype)
    if value.is_known or bounds is None or dtype == "bool":
        return value
    outside = (value.low < bounds[0]) | (value.high > bounds[1])
    if not np.any(outside):
        return value
    low = np.where(outside, np.asarray(bounds[0], value.low.dtype), value.low)
    return Interval(low, np.where(outside, np.asarray(bounds[1], value.high.dtype), value.high))


def negated(operator: str, value: Interval, kind: Type) -> Interval:
    """Return what a unary operator gives."""
    function = {"-": np.negative, "not": np.logical_not}.get(operator, np.invert)
    low = np.asarray(function(value.high))
    if value.is_known:
        return known(low)
    found = Interval(low, np.asarray(function(value.low)))
    if operator == "-" and not is_float(kind):
        return _unless(value.low == np.iinfo(NUMPY[kind].name).min, found, kind)
    return found


def computed(operator: str, a: Interval, b: Interval, kind: Type) -> Interval:
    """Return what a binary operator gives."""
    function = BINARY[operator]
    if a.is_known and b.is_known:
        return known(np.asarray(function(a.low, b.low)))
    if operator in ("+", "-", "*"):
        return _sums(operator, a, b, kind)
    if b.is_known and (operator == ">>" or (operator in ("/", "//") and np.all(b.low > 0))):
        return _ordered(each(a, lambda end: np.asarray(function(end, b.low))), kind)
    return _at_points(lambda: np.asarray(function(a.low, b.low)), (a, b), kind)


def _sums(operator: str, a: Interval, b: Interval, kind: Type) -> Interval:
    """Return sums, differences and products; those of integers in 64 bits, to see what wraps."""
    function = BINARY[operator]
    if not is_float(kind):
        if kind in ("i64", "u64"):
            return _at_points(lambda: np.asarray(function(a.low, b.low)), (a, b), kind)
        a, b = (each(x, lambda end: end.astype(np.int64)) for x in (a, b))
    if operator == "+":
        found = Interval(np.asarray(a.low + b.low), np.asarray(a.high + b.high))
    elif operator == "-":
        found = Interval(np.asarray(a.low - b.high), np.asarray(a.high - b.low))
    else:
        ends = [a.low * b.low, a.high * b.high]
        if not a.is_known and not b.is_known:
            ends += [a.low * b.high, a.high * b.low]
        found = Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))
    if is_float(kind):
        return _ordered(found, kind)
    limits = np.iinfo(NUMPY[kind].name)
    wraps = (found.low < limits.min) | (found.high > limits.max)
    return _unless(wraps, each(found, lambda end: end.astype(NUMPY[kind])), kind)


def called(function: str, arguments: list[Interval], kind: Type) -> Interval:
    """Return what a function gives."""
    call = FUNCTIONS[function]

    def at(ends: list[Array]) -> Array:
        return np.asarray(call(*ends)).astype(NUMPY[kind])

    first, *rest = arguments
    lows = [a.low for a in arguments]
    if all(a.is_known for a in arguments):
        return known(at(lows))
    others_known = all(a.is_known for a in rest)
    if function in RISING or (function in RISING_IN_FIRST and others_known):
        return _ordered(Interval(at(lows), at([a.high for a in arguments])), kind)
    if function == "scale_fixed" and others_known:
        ends = at(lows), at([first.high, *(a.low for a in rest)])
        return Interval(np.minimum(*ends), np.maximum(*ends))
    return _at_points(lambda: at(lows), arguments, kind)


def _at_points(value: Callable[[], Array], operands: Sequence[Interval], kind: Type) -> Interval:
    """Return a value where its operands are one number each, anything elsewhere."""
    tests = [np.asarray(a.low == a.high) for a in operands if not a.is_known]
    is_one = np.logical_and.reduce(np.broadcast_arrays(*tests))
    found = value()
    least, most = _limits(kind)
    return Interval(np.where(is_one, found, least), np.where(is_one, found, most))


def _ordered(found: Interval, kind: Type) -> Interval:
    """Return an interval; anything where an end is not a number."""
    if found.is_known or not is_float(kind):
        return found
    return _unless(np.isnan(found.low) | np.isnan(found.high), found, kind)


def _unless(test: Array, found: Interval, kind: Type) -> Interval:
    """Return an interval; anything where a test holds."""
    if not np.any(test):
        return found
    least, most = _limits(kind)
    return Interval(np.where(test, least, found.low), np.where(test, most, found.high))


def _limits(kind: Type) -> tuple[Array, Array]:
    dtype = NUMPY[kind]
    if is_float(kind):
        return np.asarray(-np.inf, dtype), np.asarray(np.inf, dtype)
    if kind == "bool":
        return np.zeros((), dtype), np.ones((), dtype)
    limits = np.iinfo(dtype.name)
    return np.asarray(limits.min, dtype), np.asarray(limits.max, dtype)


def all_of(kind: Type, shape: tuple[int, ...]) -> Interval:
    """Return all that a compute type holds."""
    low, high = _limits(kind)
    return Interval(np.full(shape, low), np.full(shape, high))
