"""What tasks of a kernel compute beyond what it computes at once."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dlbuild.stages.tile_space import TileSpace

SUM_CYCLES = 30
"""Cycles of a further part of a sum: it is loaded, and stored again, and loops begin anew.

Counted on emulated Cortex-M4F and RV32 cores: 7 for short sums to 80 for those of windows.
"""

WINDOW_CYCLES = 2.0
"""The same of a number that a hand-written kernel makes ready again, if the target says nothing."""

Trips = TypeVar("Trips", int, npt.NDArray[np.int64])
"""How many parts an axis is cut into: of one cut, or of many at a time."""


def repeated(space: TileSpace, trips: Sequence[Trips]) -> Trips | int:
    """Return how many numbers are handled again: partial sums, or numbers of windows.

    A hand-written kernel makes the windows of its points ready for each block of channels.

    space: the ways to cut a kernel. trips: of each of its axes.
    """
    of = dict(zip(space.axes, trips, strict=True))
    if space.hand:
        parts = [of[axis] for axis in space.axes if axis == space.hand.blocks]
        return _further(parts) * space.hand.windows if parts else 0
    parts = [of[axis] for axis in space.axes[len(space.axes) - space.reduce :]]
    results = prod(space.nest.extent[axis] for axis in space.nest.domain)
    return _further(parts) * results if parts else 0


def _further(parts: Sequence[Trips]) -> Trips:
    return prod(parts[1:], start=parts[0]) - 1


def further_cycles(
    space: TileSpace, loops: Sequence[tuple[str, int]], window_cycles: float
) -> float:
    """Return what tasks of these loops take longer than the kernel at once.

    window_cycles: of a number that a hand-written kernel makes ready.
    """
    sizes: Mapping[str, int] = dict(loops)
    extent = space.nest.extent
    trips = [-(-extent[axis] // sizes.get(axis, extent[axis])) for axis in space.axes]
    return repeated(space, trips) * (window_cycles if space.hand else SUM_CYCLES)
