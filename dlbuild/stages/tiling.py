"""Kernels that run through a near memory: how each is cut, and what windows it needs there."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import prod

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel
from dlbuild.ir.target import Memory, Options, Rate, Target
from dlbuild.ir.tile_plan import Cut, Level, NearBuffer, Tiling
from dlbuild.rulebook.value import STORED_TYPE
from dlbuild.stages.tasks import moves, sides
from dlbuild.stages.tile_search import Near, search
from dlbuild.stages.tile_space import Moved, TileSpace
from dlbuild.stages.tile_time import replayed
from dlbuild.stages.tile_work import WINDOW_CYCLES

MOST_MEMORIES = 2

TILES = "tiles"
"""What a near memory `holds`: parts of tensors that lie in another memory."""


def tile_memories(graph: Graph, target: Target) -> tuple[Memory, ...]:
    """Return the memories that hold tiles, the nearest first: none, one or two.

    Raises:
        UserError: there are more, or one of them holds the arena too.
    """
    found = tuple(memory for memory in target.memories if TILES in memory.holds)
    where = f"{graph.name}@{target.name}"
    if len(found) > MOST_MEMORIES:
        raise UserError(
            f"memory '{found[-1].name}' is the third that holds tiles",
            where=where,
            why="what a kernel needs comes through one memory, or two, to the core",
            fix=f"leave tiles out of the 'holds' of '{found[-1].name}'",
        )
    for memory in found:
        if "arena" in memory.holds:
            raise UserError(
                f"memory '{memory.name}' holds tiles and the arena",
                where=where,
                why="each would have to leave the other room",
                fix=f"state two memories, each with its size, in the place of '{memory.name}'",
            )
    return found


def near_of(memory: Memory, target: Target, options: Options, kernel: Kernel | None) -> Near:
    """Return what a near memory offers to a kernel, or to any."""
    is_fast = options.optimize == "speed"
    usual = "time" if memory.copy_bytes_per_cycle > 0 and is_fast else "traffic"
    objective = memory.copy_objective or usual
    align = max(memory.align_bytes, target.dma.align_bytes if target.dma else 1)
    return Near(
        size_bytes=memory.size_bytes if memory.size_bytes is not None else 1 << 40,
        align_bytes=align,
        setup_cycles=memory.copy_setup_cycles,
        bytes_per_cycle=memory.copy_bytes_per_cycle,
        cycles=kernel.cycles if kernel else 0,
        objective="time" if objective == "time" else "traffic",
        buffers=2,
        hurry=1.0 if is_fast and memory.copy_objective != "traffic" else 0.0,
        window_cycles=_window_cycles(kernel, target),
    )


def _window_cycles(kernel: Kernel | None, target: Target) -> float:
    name = kernel.handwriting.name if kernel and kernel.handwriting else ""
    return target.kernels.get(name, Rate()).window or WINDOW_CYCLES


def tiling(kernel: Kernel, space: TileSpace, near: Near) -> Tiling | None:
    """Return the cheapest tiling of a kernel, None if none fits."""
    found = search(space, near)
    if found is None:
        return None
    return planned(kernel.name, space, found.loops, near, found.doubled)


def planned(  # noqa: PLR0913, PLR0917 - what a tiling is made of
    kernel: str,
    space: TileSpace,
    loops: Sequence[tuple[str, int]],
    near: Near,
    doubled: frozenset[str],
    outer: Tiling | None = None,
) -> Tiling:
    """Return the tiling that runs through given loops, outermost first, reductions innermost.

    doubled: operands of two buffers. outer: of the parts that the loops cut.
    """
    around = [(cut.axis, cut.size) for cut in outer.loops] if outer else []
    moved = list(moves(space, loops, around))
    parts = list({**dict(around), **dict(loops)}.items())
    changing = {m.operand.name for m in space.moved if _is_changing(m, space, parts)}
    doubled &= changing
    cut = {axis for axis, _ in loops}
    reduction = tuple(a for a in space.axes[len(space.axes) - space.reduce :] if a in cut)
    return Tiling(
        kernel=kernel,
        memory="",
        loops=tuple(Cut(axis, size) for axis, size in loops),
        buffers=tuple(_buffers(space, parts, reduction, near, doubled)),
        tasks=prod(-(-space.nest.extent[axis] // size) for axis, size in parts),
        transfers=len(moved),
        traffic_bytes=sum(move.size_bytes for move in moved),
        reduction=reduction,
        cycles=round(replayed(space, parts, moved, near, doubled)),
        around=level_of(outer) if outer else None,
        is_handwritten=space.hand is not None,
        form=space.hand.form if space.hand else 0,
        is_by_rows=space.hand is not None and space.hand.is_by_rows,
    )


def _buffers(
    space: TileSpace,
    loops: Sequence[tuple[str, int]],
    reduction: Sequence[str],
    near: Near,
    doubled: frozenset[str],
) -> list[NearBuffer]:
    """Place the windows one behind the other."""
    largest = _largest(space, loops)
    found: list[NearBuffer] = []
    offset = 0

    def place(operand: str, dtype: str, shape: tuple[int, ...], copies: int) -> None:
        nonlocal offset
        size = prod(shape) * DTYPES[dtype].bits // 8
        stride = -(-size // near.align_bytes) * near.align_bytes
        found.append(NearBuffer(operand, dtype, shape, offset, stride, copies))
        offset += stride * copies

    for moved in space.moved:
        copies = 2 if moved.operand.name in doubled else 1
        place(moved.operand.name, moved.operand.dtype, largest[moved.operand.name], copies)
    for room in space.scratch:
        place(room.name, room.dtype, room.shape, 1)
    if reduction:
        sizes = dict(loops)
        kept = [a for a in space.nest.domain if space.nest.extent[a] > 1]
        shape = tuple(sizes.get(a, space.nest.extent[a]) for a in kept)
        for step in space.nest.steps:
            for fold in step.folds:
                place(f"{fold.name}_sums", STORED_TYPE[fold.type], shape, 1)
    return found


def _is_changing(moved: Moved, space: TileSpace, loops: Sequence[tuple[str, int]]) -> bool:
    """Tell whether tasks have different windows of an operand; those of borders may be the same."""
    extent = space.nest.extent
    return any(len(sides(moved, axis, loops, extent)) > 1 for axis in range(len(moved.view)))


def _largest(space: TileSpace, loops: Sequence[tuple[str, int]]) -> Mapping[str, tuple[int, ...]]:
    """Return the extents of the smallest buffer that holds every window of an operand."""
    return {
        moved.operand.name: tuple(
            max(last - first for first, last in sides(moved, axis, loops, space.nest.extent))
            for axis in range(len(moved.view))
        )
        for moved in space.moved
    }


def level_of(tiling: Tiling) -> Level:
    """Return a tiling as what another one cuts again."""
    return Level(**{f.name: getattr(tiling, f.name) for f in fields(Level)})
