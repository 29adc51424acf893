"""How much each size of a cut moves of an operand: its windows counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from dlbuild.stages.tile_space import Moved, TileSpace, pieces, window

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Axes of an operand's view whose windows depend on the same cuts.

    cuts: numbers of the space's axes. total: elements in the windows of all tasks that differ in
    these cuts. most: elements of the largest window. Both have an axis for each cut.
    """

    cuts: tuple[int, ...]
    total: Counts
    most: Counts


def all_parts(space: TileSpace) -> Mapping[str, tuple[Part, ...]]:
    """Count the windows of each operand for all sizes of all cuts."""
    return {moved.operand.name: parts_of(moved, space) for moved in space.moved}


def parts_of(moved: Moved, space: TileSpace) -> tuple[Part, ...]:
    """Count the windows of an operand for all sizes of all cuts."""
    groups: list[tuple[set[int], list[int]]] = []
    for axis in range(len(moved.view)):
        cuts = {n for n, name in enumerate(space.axes) if name in moved.axes(axis)}
        touching = [g for g in groups if g[0] & cuts]
        for group in touching:
            groups.remove(group)
        axes = [*(a for g in touching for a in g[1]), axis]
        groups.append((cuts.union(*(g[0] for g in touching)), axes))
    return tuple(_part(moved, space, sorted(cuts), axes) for cuts, axes in groups)


def _part(moved: Moved, space: TileSpace, cuts: Sequence[int], axes: Sequence[int]) -> Part:
    nest = space.nest
    shape = tuple(len(space.sizes[number]) for number in cuts)
    total, most = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    box = {a: (0, n) for a, n in nest.extent.items()}
    counted: dict[tuple[tuple[int, int], ...], tuple[int, ...]] = {}
    names = [space.axes[number] for number in cuts]
    for at in product(*(range(n) for n in shape)):
        sizes = [space.sizes[number][i] for number, i in zip(cuts, at, strict=True)]
        ranges = [pieces(nest.extent[a], size) for a, size in zip(names, sizes, strict=True)]
        alike: dict[tuple[int, ...], int] = {}
        for boxes in product(*ranges):
            extents = counted.get(boxes)
            if extents is None:
                box.update(zip(names, boxes, strict=True))
                found = window(moved, box, axes)
                extents = counted[boxes] = tuple([last - first for first, last in found])
            alike[extents] = alike.get(extents, 0) + 1
        total[at] = sum(prod(extents) * count for extents, count in alike.items())
        most[at] = prod(map(max, zip(*alike, strict=True)))
    return Part(tuple(cuts), total, most)
