"""Conditions of an iteration: proved, turned into loop bounds, or tested as early as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Condition, Loop
from dlbuild.rulebook.interpret import used_accesses


@dataclass(frozen=True, slots=True)
class Clamp:
    """A bound of a loop over an axis: it begins at `index` or ends before it."""

    axis: str
    is_end: bool
    index: Index


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a step's conditions are decided.

    is_dead: no iteration ever happens. outer: before the step's loops.
    clamps: by the range of a loop. inner: inside the loop over an axis.
    """

    is_dead: bool = False
    outer: tuple[Condition, ...] = ()
    clamps: tuple[Clamp, ...] = ()
    inner: tuple[tuple[str, Condition], ...] = ()


def plan(step: Loop, access: Mapping[str, Access], ranges: Ranges) -> Plan:
    """Decide where each condition of a step is tested."""
    outer: list[Condition] = []
    clamps: list[Clamp] = []
    inner: list[tuple[str, Condition]] = []
    for condition in dict.fromkeys(_conditions(step, access)):
        match _verdict(condition, ranges):
            case False:
                return Plan(is_dead=True)
            case True:
                continue
        axis = _innermost(condition, step.over)
        if axis is None:
            outer.append(condition)
        elif (clamp := _clamp(condition, axis)) is not None:
            clamps.append(clamp)
        else:
            inner.append((axis, condition))
    return Plan(outer=tuple(outer), clamps=tuple(clamps), inner=tuple(inner))


def bounds(access: Access, ranges: Ranges) -> tuple[Condition, ...]:
    """Return what is not proved of: the element of an access exists."""
    return tuple(c for c in _guards(access) if _verdict(c, ranges) is None)


def is_absent(access: Access, ranges: Ranges) -> bool:
    """Tell whether the element of an access exists at no point at all."""
    return any(_verdict(condition, ranges) is False for condition in _guards(access))


def _conditions(step: Loop, access: Mapping[str, Access]) -> Sequence[Condition]:
    found = list(step.when)
    for name in used_accesses(step):
        if name in access and access[name].outside == "skip":
            found += _guards(access[name])
    return found


def _guards(access: Access) -> list[Condition]:
    found: list[Condition] = []
    for guard in access.guards:
        found.append(Condition(">=", guard.index, Index()))
        found.append(Condition("<", guard.index, Index.of(guard.extent)))
    return found


def _verdict(condition: Condition, ranges: Ranges) -> bool | None:
    """Return what a condition always is, None if that depends on the point."""
    low, high = ranges.index(condition.left - condition.right)
    match condition.operator:
        case "<":
            always, never = high < 0, low >= 0
        case "<=":
            always, never = high <= 0, low > 0
        case ">":
            always, never = low > 0, high <= 0
        case ">=":
            always, never = low >= 0, high < 0
        case "==":
            always, never = low == high == 0, low > 0 or high < 0
        case "!=":
            always, never = low > 0 or high < 0, low == high == 0
    return True if always else False if never else None


def _innermost(condition: Condition, over: Sequence[str]) -> str | None:
    axes = {*condition.left.axes(), *condition.right.axes()}
    inside = [axis for axis in over if axis in axes]
    return inside[-1] if inside else None


def _clamp(condition: Condition, axis: str) -> Clamp | None:
    """Return the condition as a bound of the loop over `axis`, if it is a plain one."""
    difference = condition.left - condition.right
    factor = difference.coefficient(axis)
    is_plain = abs(factor) == 1 and axis not in difference.entangled_axes()
    if not is_plain or condition.operator in ("==", "!="):
        return None
    # factor * axis + rest < 0, and so on.
    rest = difference - Index.axis(axis) * factor
    is_upper = (condition.operator in ("<", "<=")) == (factor > 0)
    edge = -rest if factor > 0 else rest
    if is_upper:
        return Clamp(axis, is_end=True, index=edge + (1 if "=" in condition.operator else 0))
    return Clamp(axis, is_end=False, index=edge + (0 if "=" in condition.operator else 1))
