"""The time that a kernel's tasks take: what is moved, and what waits for it, one by one."""

from collections.abc import Mapping, Sequence
from math import prod

from dlbuild.stages.tasks import Move, boxes
from dlbuild.stages.tile_search import Near
from dlbuild.stages.tile_space import TileSpace
from dlbuild.stages.tile_work import further_cycles


def replayed(
    space: TileSpace,
    loops: Sequence[tuple[str, int]],
    moves: Sequence[Move],
    near: Near,
    doubled: frozenset[str],
) -> float:
    """Return the cycles of all tasks, moves and computations at the same time where they may be.

    The engine moves one window after the other, in the order in which the C asks for it. A task
    waits for its windows; what it writes, for the result that left the same buffer before.

    Args:
        space: the ways to cut the kernel.
        loops: how it is cut, outermost first.
        moves: what its tasks move.
        near: what moving and computing costs.
        doubled: operands of two buffers; windows of others come and leave between tasks.
    """
    shares = _shares(space, loops)
    cycles = near.cycles + further_cycles(space, loops, near.window_cycles)
    brought: dict[int, list[Move]] = {}
    sent: dict[int, list[Move]] = {}
    for move in moves:
        (sent if move.is_output else brought).setdefault(move.task, []).append(move)
    clock = engine = _sum(brought.get(0, ()), near)
    leaving: list[float] = []
    for task, share in enumerate(shares):
        later = brought.get(task + 1, ())
        engine = max(engine, clock) + _sum([m for m in later if m.operand in doubled], near)
        arrived = engine
        results = sent.get(task, ())
        is_double = all(m.operand in doubled for m in results)
        if results and len(leaving) > is_double:
            clock = max(clock, leaving[-1 - is_double])
        clock += cycles * share + near.task_cycles
        if results:
            engine = max(engine, clock) + _sum(results, near)
            leaving.append(engine)
        between = [m for m in later if m.operand not in doubled]
        if between:
            clock = engine = max(engine, clock) + _sum(between, near)
        clock = max(clock, arrived)
    return max([clock, *leaving[-1:]])


def _sum(moves: Sequence[Move], near: Near) -> float:
    rate = 1 / near.bytes_per_cycle if near.bytes_per_cycle else 0.0
    return sum(near.setup_cycles + move.size_bytes * rate for move in moves)


def _shares(space: TileSpace, loops: Sequence[tuple[str, int]]) -> Sequence[float]:
    """Return what part of the computation each task is."""
    extent: Mapping[str, int] = space.nest.extent
    axes = [axis for axis, _ in loops]
    whole = prod(extent[axis] for axis in axes)
    return [
        prod(box[axis][1] - box[axis][0] for axis in axes) / whole for box in boxes(loops, extent)
    ]
