"""The tasks of a tiling one by one: which part of the domain each covers, and what it moves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from dlbuild.stages.tile_space import Moved, Ranges, TileSpace, Window, pieces, window

Loops = Sequence[tuple[str, int]]
"""(axis, size of its parts) from the outermost to the innermost."""


@dataclass(frozen=True, slots=True)
class Move:
    """A window that one task brings, or that leaves after it."""

    task: int
    operand: str
    window: Window
    size_bytes: int
    is_output: bool = False


def boxes(loops: Loops, extent: Mapping[str, int], outer: Loops = ()) -> Iterator[Ranges]:
    """Yield the part of the domain that each task covers, in order of execution.

    outer: loops around, into whose parts `loops` cut.
    """
    whole = {axis: (0, count) for axis, count in extent.items()}
    for around in _combined(outer, whole):
        yield from _combined(loops, around)


def _combined(loops: Loops, box: Ranges) -> Iterator[Ranges]:
    parts = [
        [(box[axis][0] + a, box[axis][0] + b) for a, b in pieces(box[axis][1] - box[axis][0], size)]
        for axis, size in loops
    ]
    for ranges in product(*parts):
        yield {**box, **{axis: r for (axis, _), r in zip(loops, ranges, strict=True)}}


def moves(space: TileSpace, loops: Loops, outer: Loops = ()) -> Iterator[Move]:
    """Yield what is moved: a window is brought when it differs from the one before.

    A result leaves when no later task adds to it. With loops around, each of their parts begins
    with nothing there.
    """
    reduction = space.axes[len(space.axes) - space.reduce :]
    names = [axis for axis, _ in (*outer, *loops)]
    known = [(moved, _Windows(moved, names)) for moved in space.moved]
    count = prod(_trips(loops, space.nest.extent, dict(outer)))
    before: dict[str, Window] = {}
    for number, box in enumerate(boxes(loops, space.nest.extent, outer)):
        if number % count == 0:
            before = {}
        is_last = all(box[a][1] == space.nest.extent[a] for a in reduction)
        for moved, windows in known:
            found = windows.over(box)
            name = moved.operand.name
            is_due = is_last if moved.is_output else before.get(name) != found
            before[name] = found
            if is_due:
                size = prod(last - first for first, last in found) * moved.element_bytes
                yield Move(number, name, found, size, moved.is_output)


def _trips(loops: Loops, extent: Mapping[str, int], outer: Mapping[str, int]) -> Iterator[int]:
    for axis, size in loops:
        yield -(-outer.get(axis, extent[axis]) // size)


def deciding(moved: Moved, cut: Sequence[str]) -> tuple[str, ...]:
    """Return the axes that are cut and on which the window of an operand depends."""
    axes = {name for axis in range(len(moved.view)) for name in moved.axes(axis)}
    return tuple(name for name in cut if name in axes)


class _Windows:
    """The windows of an operand, each worked out once, axis by axis."""

    def __init__(self, moved: Moved, cut: Sequence[str]) -> None:
        self._moved = moved
        self._axes = deciding(moved, cut)
        self._sides = [_Side(moved, axis, cut) for axis in range(len(moved.view))]
        self._known: dict[tuple[tuple[int, int], ...], Window] = {}

    def over(self, box: Ranges) -> Window:
        key = tuple([box[axis] for axis in self._axes])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = tuple([side.over(box) for side in self._sides])
        return found


class _Side:
    """What windows cover of one axis of an operand's view."""

    def __init__(self, moved: Moved, axis: int, cut: Sequence[str]) -> None:
        self._moved, self._axis = moved, axis
        self._axes = tuple(name for name in cut if name in moved.axes(axis))
        self._known: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {}

    def over(self, box: Ranges) -> tuple[int, int]:
        key = tuple([box[axis] for axis in self._axes])
        found = self._known.get(key)
        if found is None:
            (found,) = window(self._moved, box, (self._axis,))
            self._known[key] = found
        return found


def sides(moved: Moved, axis: int, loops: Loops, extent: Mapping[str, int]) -> set[tuple[int, int]]:
    """Return what the windows of all tasks cover of one axis of an operand's view."""
    axes = moved.axes(axis)
    cut = [loop for loop in loops if loop[0] in axes]
    return {window(moved, box, (axis,))[0] for box in boxes(cut, extent)}
