"""A nest cut into regions: most points in blocks, without conditions; the rest as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from dlbuild.emit.blocking import MOST_BLOCKED, Blocks, blockable, choose, guarded, points, work_of
from dlbuild.emit.lower import Block, Lowered, merged, substituted, without_proved_guards
from dlbuild.emit.ranges import Span
from dlbuild.ir.target import Registers
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Guard

DEEPEST = 3
"""How often what is left of a nest is cut again."""


def regions(
    nest: Lowered, by_value: Collection[str], registers: Registers, depth: int = 0
) -> tuple[Lowered, ...]:
    """Return nests that together do what `nest` does, each point once.

    Args:
        nest: a nest.
        by_value: accesses of one number that is in a register.
        registers: what a block may use.
        depth: how often it was cut before.
    """
    if depth == DEEPEST or work_of(nest, by_value) is None:
        return (nest,)
    main, blocks = _best(nest, by_value, registers)
    if not blocks.points:
        return (nest,)
    whole = {block.axis: _whole_blocks(main, block) for block in blocks.points}
    inside = {**main.span, **whole}
    rest = _rest(nest, inside)
    named = Blocks(_named(blocks.points, main), blocks.unrolled)
    blocked = _settled(replace(nest, span=inside), named)
    return (blocked, *(part for r in rest for part in regions(r, by_value, registers, depth + 1)))


def _best(nest: Lowered, by_value: Collection[str], registers: Registers) -> tuple[Lowered, Blocks]:
    """Return the interior of the nest whose blocks spare most, and these.

    What is left around an interior can be in blocks too, of the axes that need none.
    """
    found: list[tuple[Lowered, Blocks, float]] = [(nest, Blocks(), 0.0)]
    for axes in _choices(nest):
        inner = _interior(nest, axes)
        work = work_of(inner, by_value) if inner is not None else None
        if inner is None or work is None:
            continue
        open_ = [axis for axis in blockable(work) if axis in axes]
        found.append((inner, *choose(work, open_, registers)))
    everywhere = max(spared for inner, _, spared in found if _area(inner) == _area(nest))

    def all_spared(one: tuple[Lowered, Blocks, float]) -> float:
        return one[2] + everywhere * (1 - _area(one[0]) / _area(nest))

    inner, blocks, _ = max(found, key=all_spared)
    return inner, blocks


def _area(nest: Lowered) -> int:
    return prod(points(nest, axis) for axis in nest.domain)


def _choices(nest: Lowered) -> Iterator[tuple[str, ...]]:
    # The innermost axes first: of what spares as much, the block that lies closest.
    for count in range(1, MOST_BLOCKED + 1):
        for axes in combinations(reversed(nest.domain), count):
            yield tuple(reversed(axes))


def _interior(nest: Lowered, axes: Sequence[str]) -> Lowered | None:
    """Return the part of the nest in which no condition depends on `axes`, None if there is none.

    Other axes are cut too where an element that may not exist is read by a block.
    """
    found = nest
    for name in nest.access:
        if not guarded(found, name) & set(axes):
            continue
        for guard in found.access[name].guards:
            if found.access[name].outside == "skip" and not set(guard.index.axes()) & set(axes):
                continue
            inside = _inside(guard, found)
            if inside is None:
                return None
            found = replace(found, span={**found.span, **inside})
    return without_proved_guards(found)


def _inside(guard: Guard, nest: Lowered) -> Mapping[str, Span] | None:
    """Return the points of the only axis of the domain in a guard at which it holds."""
    index, box = guard.index, nest.box
    axes = [axis for axis in nest.domain if axis in set(index.axes())]
    if len(axes) != 1 or set(index.entangled_axes()):
        return None
    (axis,) = axes
    span = nest.span.get(axis, Span(0, nest.extent[axis]))
    factor = index.coefficient(axis)
    if axis in nest.count or span.skip != (0, 0) or not factor:
        return None
    low, high = (index - Index.axis(axis) * factor).interval(box)
    # 0 <= factor * axis + rest < extent for the least and the greatest rest.
    least, most = -low, guard.extent - 1 - high
    if factor < 0:
        factor, least, most = -factor, -most, -least
    first, end = max(span.first, -(-least // factor)), min(span.end, most // factor + 1)
    return {axis: Span(first, end)} if first < end else None


def _whole_blocks(nest: Lowered, block: Block) -> Span:
    """Return the part of an axis that blocks fill."""
    first = nest.span[block.axis].first if block.axis in nest.span else 0
    return Span(first, first + points(nest, block.axis) // block.size * block.size)


def _rest(nest: Lowered, inside: Mapping[str, Span]) -> list[Lowered]:
    """Return what is left of the nest without the box `inside`: for each axis what is outside."""
    found = []
    done = dict(nest.span)
    for axis, part in inside.items():
        before = nest.span.get(axis, Span(0, nest.extent[axis]))
        if part != before:
            left = _without(before, part)
            found.append(_settled(replace(nest, span={**done, axis: left}), Blocks()))
            done[axis] = part
    return found


def _without(whole: Span, part: Span) -> Span:
    if part.first == whole.first:
        return Span(part.end, whole.end)
    if part.end == whole.end:
        return Span(whole.first, part.first)
    return Span(whole.first, whole.end, (part.first, part.end))


def _settled(nest: Lowered, blocks: Blocks) -> Lowered:
    """Return a region without the axes and guards that it does not need."""
    whole = {a: s for a, s in nest.span.items() if s != Span(0, nest.extent[a])}
    blocked = {block.axis for block in blocks.points}
    nest = replace(nest, span=whole, blocks=blocks.points, unrolled=blocks.unrolled)
    single = {
        axis: Index.of(span.first)
        for axis, span in nest.span.items()
        if span.end - span.first == 1 and axis not in blocked
    }
    return merged(without_proved_guards(substituted(nest, single)))


def _named(blocks: Iterable[Block], nest: Lowered) -> tuple[Block, ...]:
    """Return blocks with a name for the first point of each: of an axis `k` `k0`, if it is free."""
    taken = {*nest.extent, *nest.given, *nest.access}
    found = []
    for block in blocks:
        name = f"{block.axis}0"
        while name in taken:
            name += "0"
        taken.add(name)
        found.append(replace(block, start=name))
    return tuple(found)
