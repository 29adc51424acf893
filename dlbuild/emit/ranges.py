"""Which integers a value can be: what decides between plain and careful C arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from types import MappingProxyType

from dlbuild.emit.ctypes import LIMITS
from dlbuild.rulebook.index import Bound, Index
from dlbuild.rulebook.instance import Fold, Loop
from dlbuild.rulebook.range import range_of_dtype
from dlbuild.rulebook.value import (
    FIXED_LIMIT,
    Binary,
    Call,
    Cast,
    Choose,
    Expr,
    Local,
    Number,
    Offset,
    Position,
    Read,
    Type,
    Unary,
    walk,
)

Range = tuple[float, float]
"""Inclusive bounds; of a float they may be infinite, and NaN is outside every range."""

ANY: Range = (-inf, inf)
CORNERS = ("+", "-", "*")


@dataclass(frozen=True, slots=True)
class Span:
    """The points first .. end - 1 of an axis, but those from skip[0] to before skip[1]."""

    first: int
    end: int
    skip: tuple[int, int] = (0, 0)

    @property
    def points(self) -> int:
        """How many they are."""
        return self.end - self.first - (self.skip[1] - self.skip[0])


class Ranges:
    """The ranges of a nest's values, given its loop extents and the element types it reads."""

    def __init__(
        self,
        extent: Mapping[str, int],
        dtype: Mapping[str, str],
        given: Mapping[str, Bound] = MappingProxyType({}),
        span: Mapping[str, Span] = MappingProxyType({}),
    ) -> None:
        """dtype: the element type that each access reads. given: see Nest. span: see Lowered."""
        self._box = box_of(extent, given, span)
        self._extent = extent
        self._dtype = dtype
        self._locals: dict[str, Range] = {}

    def enter(self, step: Loop) -> None:
        """Learn the ranges of a step's variables; steps in order."""
        for fold in step.folds:
            self._locals[fold.name] = full(fold.type)
        for let in step.lets:
            self._locals[let.name] = self.of(let.value)
        turns = prod(self._extent[a] for a in step.over)
        for fold in step.folds:
            self._locals[fold.name] = self._fold(fold, step.folds, turns)

    def index(self, index: Index) -> tuple[int, int]:
        """Return the range of an index map."""
        return index.interval(self._box)

    def of(self, expr: Expr) -> Range:
        """Return the range of a value; of one that wraps around, all of its type."""
        found = self.raw(expr)
        allowed = full(expr.type)
        return found if is_within(found, allowed) else allowed

    def is_exact(self, expr: Expr) -> bool:
        """Tell whether integer arithmetic provably does not overflow."""
        return is_within(self.raw(expr), full(expr.type))

    def is_exact_fold(self, fold: Fold) -> bool:
        """Tell whether the sum of a fold provably does not overflow, over all its turns."""
        return self.is_exact(fold.each) or (
            added(fold) is not None and is_within(self._locals[fold.name], full(fold.type))
        )

    def of_local(self, fold: Fold) -> Range:
        """Return the range of a fold's variable after all turns."""
        return self._locals[fold.name]

    def learn(self, name: str, expr: Expr) -> None:
        """Learn the range of a variable that stands for a value."""
        self._locals[name] = self.of(expr)

    def raw(self, expr: Expr) -> Range:
        """Return the range that an expression would have in unlimited arithmetic."""
        match expr:
            case Number(number, _):
                return float(number), float(number)
            case Read(access, _):
                return range_of_dtype(self._dtype[access]) or ANY
            case Local(name, kind):
                return self._locals.get(name, full(kind))
            case Position(index, _):
                return self.index(index)
            case Choose(_, then, other, _):
                return hull(self.of(then), self.of(other))
            case Unary("-", value, _):
                low, high = self.of(value)
                return -high, -low
            case _:
                return self._computed(expr)

    def _computed(self, expr: Expr) -> Range:
        match expr:
            case Binary(operator, left, right, kind):
                return self._binary(operator, left, right, kind)
            case Cast(value, kind):
                return self._cast(value, kind)
            case Call(function, arguments, kind):
                return self._call(function, arguments, kind)
            case Offset():
                return 0, LIMITS["i32"][1]
            case _:
                return full(expr.type)

    def _cast(self, value: Expr, kind: Type) -> Range:
        found, allowed = self.of(value), full(kind)
        if value.type in ("f32", "f64") and kind not in ("f32", "f64"):
            return max(found[0], allowed[0]), min(found[1], allowed[1])
        return found if is_within(found, allowed) else allowed

    def _binary(self, operator: str, left: Expr, right: Expr, kind: Type) -> Range:
        a, b = self.of(left), self.of(right)
        if operator in CORNERS:
            return _corners(operator, a, b)
        if kind in ("f32", "f64"):
            return ANY
        if operator in ("/", "//") and b[0] > 0:
            ends = [x // y for x in a for y in b if abs(x) != inf]
            if len(ends) == len(a) * len(b):
                return min(*ends, 0.0 if a[0] < 0 else ends[0]), max(
                    *ends, *(-(-x // y) for x in a for y in b)
                )
        if operator == "%" and b[0] > 0:
            return 0, b[1] - 1
        if operator == "&" and a[0] >= 0 and b[0] >= 0:
            return 0, min(a[1], b[1])
        return full(kind)

    def _call(self, function: str, arguments: Sequence[Expr], kind: Type) -> Range:
        ranges = [self.of(a) for a in arguments]
        match function:
            case "saturate":
                return ranges[1][0], ranges[2][1]
            case "min":
                return min(r[0] for r in ranges), min(r[1] for r in ranges)
            case "max":
                return max(r[0] for r in ranges), max(r[1] for r in ranges)
            case "abs" if is_within(ranges[0], full(kind)):
                low, high = ranges[0]
                return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(-low, high)
            case "round" | "floor" | "ceil" | "trunc":
                low, high = ranges[0]
                return (low, high) if low == -inf or float(low).is_integer() else full(kind)
            case "scale_fixed":
                return -FIXED_LIMIT, FIXED_LIMIT
            case "divide_round" if ranges[1][0] > 0:
                low, high = ranges[0]
                return min(low, 0), max(high, 0)
            case _:
                return full(kind)

    def _fold(self, fold: Fold, folds: Sequence[Fold], turns: int) -> Range:
        names = {f.name for f in folds}
        start = self.of(fold.start)
        addend = added(fold)
        if addend is not None and not _mentions(addend, names):
            low, high = self.of(addend)
            total = start[0] + min(0, low * turns), start[1] + max(0, high * turns)
            return total if is_within(total, full(fold.type)) else ANY
        self._locals[fold.name] = start
        grown = hull(start, self.of(fold.each))
        self._locals[fold.name] = grown
        again = hull(grown, self.of(fold.each))
        return grown if again == grown else full(fold.type)


def box_of(
    extent: Mapping[str, int],
    given: Mapping[str, Bound],
    span: Mapping[str, Span] = MappingProxyType({}),
) -> dict[str, tuple[int, int]]:
    """Return the half-open ranges of all that an index map of a nest may name."""
    box = {axis: (0, max(count, 1)) for axis, count in extent.items()}
    box |= {axis: (part.first, part.end) for axis, part in span.items()}
    return box | {name: (low, high + 1) for name, (low, high) in given.items()}


def added(fold: Fold) -> Expr | None:
    """Return e of a fold `variable + e`, None for other folds."""
    match fold.each:
        case Binary("+", Local(name, _), addend, _) if name == fold.name:
            return addend
        case _:
            return None


def _mentions(expr: Expr, names: set[str]) -> bool:
    return any(isinstance(part, Local) and part.name in names for part in walk(expr))


def full(kind: Type) -> Range:
    """Return all that a compute type holds."""
    return LIMITS.get(kind, ANY)


def is_within(inner: Range, outer: Range) -> bool:
    """Tell whether a range lies inside another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def hull(first: Range, second: Range) -> Range:
    """Return the least range that holds both."""
    return min(first[0], second[0]), max(first[1], second[1])


def _corners(operator: str, a: Range, b: Range) -> Range:
    if operator == "+":
        return a[0] + b[0], a[1] + b[1]
    if operator == "-":
        return a[0] - b[1], a[1] - b[0]
    products = [0.0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(products), max(products)
