"""A part of a nest's iterations: what it reads of each operand, and the nest that computes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from dlbuild.rulebook.derive import splittable_axes
from dlbuild.rulebook.index import Bound, Index
from dlbuild.rulebook.instance import Access, Fold, Loop, Nest, Operand, Store
from dlbuild.rulebook.substitution import Substitution
from dlbuild.rulebook.value import STORED_TYPE, Choose, Compare, Expr, Local, Number, Position, Read

Box = Mapping[str, tuple[int, int]]
"""Half-open ranges of axes; an axis that is not mentioned runs whole."""


class Window(NamedTuple):
    """What a box needs of one axis of an access: [first, last) of the elements that exist, and
    how many the map asks for before and after them (padding).

        -1   0   1   2   3   4       map over the box: -1 .. 3, elements 0 .. 4
        [pad][first         )last    first 0, last 4, pad_before 1, pad_after 0
    """

    first: int
    last: int
    pad_before: int
    pad_after: int

    @property
    def extent(self) -> int:
        """Elements that exist."""
        return self.last - self.first


def window(nest: Nest, access: Access, box: Box) -> tuple[Window, ...]:
    """Return what `access` touches of each axis of its view while the nest runs over `box`.

    Exact for affine maps, a superset for the others.
    """
    ranges = {axis: box.get(axis, (0, extent)) for axis, extent in nest.extent.items()}
    ranges |= {name: (low, high + 1) for name, (low, high) in nest.given.items()}
    return tuple(
        _clipped(index.interval(ranges), extent)
        for index, extent in zip(access.index, access.view, strict=True)
    )


def _clipped(touched: Bound, extent: int) -> Window:
    low, high = touched[0], touched[1] + 1
    first, last = min(max(low, 0), extent), min(max(high, 0), extent)
    if first >= last:
        return Window(first, first, high - low, 0)
    return Window(first, last, first - low, high - last)


def at(nest: Nest, axis: str, name: str) -> Nest:
    """Return the nest of one value of `axis`, which the caller gives under the name `name`."""
    free = _replaced(nest, {axis: Index.axis(name)})
    return replace(
        free,
        domain=tuple(a for a in free.domain if a != axis),
        reduce=tuple(a for a in free.reduce if a != axis),
        extent={a: e for a, e in free.extent.items() if a != axis},
        steps=tuple(replace(s, over=tuple(a for a in s.over if a != axis)) for s in free.steps),
        given={**free.given, name: (0, nest.extent[axis] - 1)},
    )


def several(nest: Nest, axis: str, name: str, size: int) -> Nest:
    """Return the nest of `size` neighbours along `axis`, the first of which the caller gives under
    the name `name`: a multiple of `size`. The last are fewer if the extent is none; then the caller
    gives how many as `<axis>_count`.
    """
    extent = nest.extent[axis]
    moved = _replaced(nest, {axis: Index.axis(name) + Index.axis(axis)})
    given = {**moved.given, name: (0, (extent - 1) // size * size)}
    count = dict(moved.count)
    if extent % size:
        given[f"{axis}_count"] = (1, size)
        count[axis] = f"{axis}_count"
    return replace(moved, extent={**moved.extent, axis: size}, given=given, count=count)


def shifted(nest: Nest, tile: Mapping[str, int], local: Iterable[tuple[str, int]] = ()) -> Nest:
    """Return the nest of a tile whose place and extents the caller gives.

    Each axis of `tile` begins at `<axis>_first` and has `<axis>_count` turns, at most the number
    given there. Guards and values see the same points as in the whole nest.

    Args:
        nest: the whole.
        tile: the greatest extent of each axis that is cut.
        local: (access, axis of its view) pairs: what is addressed holds a window alone, whose
            first element is number `<access>_first<axis>` of the whole.
    """
    starts = {axis: Index.axis(f"{axis}_first") + Index.axis(axis) for axis in tile}
    moved = _replaced(nest, starts)
    given = dict(moved.given)
    for axis, extent in tile.items():
        given[f"{axis}_first"] = (0, nest.extent[axis] - 1)
        given[f"{axis}_count"] = (1, extent)
    access = dict(moved.access)
    for name, number in local:
        origin = f"{name}_first{number}"
        index = list(access[name].index)
        index[number] = index[number] - Index.axis(origin)
        access[name] = replace(access[name], index=tuple(index))
        given[origin] = (0, access[name].view[number] - 1)
    return replace(
        moved,
        access=access,
        extent={**moved.extent, **tile},
        given=given,
        count={**moved.count, **{axis: f"{axis}_count" for axis in tile}},
    )


@dataclass(frozen=True)
class Partial:
    """A nest whose reduction is cut into parts.

    add: computes one part, on top of what `sums` hold unless it is the first.
    finish: computes the results from `sums`.
    """

    add: Nest
    finish: Nest
    sums: tuple[Operand, ...]


def partial(nest: Nest, axis: str, start: Index) -> Partial | None:
    """Cut the reduction over `axis`, None if the rule does not allow it.

    Args:
        nest: the whole.
        axis: an axis of the reduction.
        start: zero in the first part, greater in all others.
    """
    if axis not in splittable_axes(nest):
        return None
    (folding,) = (step for step in nest.steps if step.folds)
    number = nest.steps.index(folding)
    kept = tuple(a for a in nest.domain if nest.extent[a] > 1)
    sums = tuple(_sum(fold, kept, nest) for fold in folding.folds)
    access = {
        operand.name: Access(operand.name, operand.shape, tuple(map(Index.axis, kept)))
        for operand in sums
    }
    reads: dict[str, Expr] = {
        fold.name: Read(operand.name, fold.type)
        for fold, operand in zip(folding.folds, sums, strict=True)
    }
    folds = tuple(replace(f, start=_start(f, start, reads[f.name])) for f in folding.folds)
    stores = tuple(
        Store(operand.name, Local(fold.name, fold.type))
        for fold, operand in zip(folding.folds, sums, strict=True)
    )
    before, after = nest.steps[:number], nest.steps[number + 1 :]
    add = (*before, replace(folding, folds=folds, stores=()), Loop((), stores=stores))
    rest = (*(replace(s, stores=()) for s in before), *after)
    finish = _steps_with(rest, Substitution(locals=reads))
    # What a step before the fold stores is stored by the last part, with all else.
    return Partial(
        replace(nest, access={**nest.access, **access}, steps=add),
        replace(nest, access={**nest.access, **access}, steps=finish),
        sums,
    )


def _sum(fold: Fold, kept: tuple[str, ...], nest: Nest) -> Operand:
    name = f"{fold.name}_sums"
    shape = tuple(nest.extent[a] for a in kept)
    return Operand(name, name, STORED_TYPE[fold.type], shape, "scratch")


def _start(fold: Fold, start: Index, before: Expr) -> Expr:
    is_first = Compare("==", Position(start), Number(0, "i32"))
    return Choose(is_first, fold.start, before, fold.type)


def _replaced(nest: Nest, axes: Mapping[str, Index]) -> Nest:
    """Return the nest with maps in the place of axes wherever they are used."""
    change = Substitution(axes=axes)
    return replace(
        nest,
        access={name: change.access(access) for name, access in nest.access.items()},
        steps=_steps_with(nest.steps, change),
    )


def _steps_with(steps: Iterable[Loop], change: Substitution) -> tuple[Loop, ...]:
    return tuple(
        replace(
            step,
            when=tuple(
                replace(c, left=change.index(c.left), right=change.index(c.right))
                for c in step.when
            ),
            lets=tuple(replace(v, value=change.expr(v.value)) for v in step.lets),
            folds=tuple(
                replace(f, start=change.expr(f.start), each=change.expr(f.each)) for f in step.folds
            ),
            stores=tuple(replace(s, value=change.expr(s.value)) for s in step.stores),
        )
        for step in steps
    )
