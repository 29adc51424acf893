"""Numbers known at build time beside typed expressions, and how two of them meet."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from dlbuild.rulebook.limits import type_limits
from dlbuild.rulebook.pack import ExpressionError, Term, describe, truth
from dlbuild.rulebook.value import RANK, Cast, Compare, Expr, Number, Type

FLOATS: frozenset[Type] = frozenset(("f32", "f64"))


@dataclass(frozen=True, slots=True)
class Known:
    """Something known at build time. is_default: it stands for an input that is not there."""

    term: Term
    is_default: bool = False


Typed = Expr | Known


def join(*types: Type) -> Type:
    """Return the type of the result of operands of these types."""
    return max(types, key=RANK.index)


def known_number(value: Known) -> int | float:
    """Return the number, or say that it is none."""
    if isinstance(value.term, int | float):
        return value.term
    raise ExpressionError(f"a number is needed here, not {describe(value.term)}")


def own_type(value: Known) -> Type:
    """Return the type that a literal has without a partner."""
    number = known_number(value)
    if isinstance(number, bool):
        return "bool"
    if isinstance(number, float):
        return "f32"
    return "i32" if _fits(number, "i32") else "i64" if _fits(number, "i64") else "u64"


def _fits(number: int, type_: Type) -> bool:
    bounds = type_limits(type_)
    return bounds is None or bounds[0] <= number <= bounds[1]


def to_type(value: Typed, type_: Type) -> Expr:
    """Return `value` converted, as a number if it is known."""
    if isinstance(value, Known | Number):
        number = known_number(value) if isinstance(value, Known) else value.number
        return Number(_converted(number, type_), type_)
    return value if value.type == type_ else Cast(value, type_)


def _converted(number: int | float, type_: Type) -> int | float:
    bounds = type_limits(type_)
    if bounds is None:
        return float(number)
    if type_ == "bool":
        return bool(number)
    if isnan(number):
        return 0
    low, high = bounds
    return low if number <= low else high if number >= high else int(number)


def finish(value: Typed, want: Type | None = None) -> Expr:
    """Return an expression of type `want`; without it, of the value's own."""
    if want is not None:
        return to_type(value, want)
    return to_type(value, own_type(value)) if isinstance(value, Known) else value


def common_type(*values: Typed) -> Type:
    """Return the type in which these values meet.

    A literal takes its partner's type, except that a fraction makes an integer f32, a number
    makes a truth i32, and a number too great for the type widens it.
    """
    literals = [known_number(v) for v in values if isinstance(v, Known)]
    types = [v.type for v in values if not isinstance(v, Known)]
    if not types:
        return join(*(own_type(v) for v in values if isinstance(v, Known)))
    type_ = join(*types)
    if type_ in FLOATS:
        return type_
    if any(isinstance(number, float) for number in literals):
        return "f32"
    if type_ == "bool" and any(not isinstance(number, bool) for number in literals):
        type_ = "i32"
    if type_ == "i32" and not all(_fits(int(number), "i32") for number in literals):
        type_ = "i64"
    return type_


def pair(left: Typed, right: Typed) -> tuple[Expr, Expr]:
    """Return both values in the type in which they meet."""
    type_ = common_type(left, right)
    return to_type(left, type_), to_type(right, type_)


def truth_of(value: Typed) -> Expr | bool:
    """Return a value as a truth: decided, if it is known at build time."""
    if isinstance(value, Known):
        return truth(value.term)
    if value.type == "bool":
        return value
    return Compare("!=", value, to_type(Known(0), value.type))
