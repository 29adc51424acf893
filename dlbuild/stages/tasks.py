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
    known = [(moved, deciding(moved, names), _Windows(moved)) for moved in space.moved]
    count = prod(_trips(loops, space.nest.extent, dict(outer)))
    before: dict[str, Window] = {}
    for number, box in enumerate(boxes(loops, space.nest.extent, outer)):
        if number % count == 0:
            before = {}
        is_last = all(box[a][1] == space.nest.extent[a] for a in reduction)
        for moved, axes, windows in known:
            found = windows.over(box, axes)
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
    """The windows of an operand, each worked out once."""

    def __init__(self, moved: Moved) -> None:
        self._moved = moved
        self._known: dict[tuple[tuple[int, int], ...], Window] = {}

    def over(self, box: Ranges, axes: Sequence[str]) -> Window:
        key = tuple(box[axis] for axis in axes)
        if key not in self._known:
            self._known[key] = window(self._moved, box)
        return self._known[key]
