"""Kernels that run through a near memory: how each is cut, and what windows it needs there."""

from collections.abc import Mapping, Sequence
from math import prod

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import Cut, NearBuffer, Tiling
from dlbuild.rulebook.tiles import STORED
from dlbuild.stages.tasks import boxes, deciding, moves
from dlbuild.stages.tile_search import Near, search
from dlbuild.stages.tile_space import TileSpace, window
from dlbuild.stages.tile_time import replayed

TILES = "tiles"
"""What a near memory `holds`: parts of tensors that lie in another memory."""


def tile_memory(graph: Graph, target: Target) -> Memory | None:
    """Return the memory that holds tiles, None if there is none.

    Raises:
        UserError: another memory holds tiles too.
    """
    found = [memory for memory in target.memories if TILES in memory.holds]
    if len(found) > 1:
        raise UserError(
            f"memory '{found[1].name}' holds tiles, as '{found[0].name}' does",
            where=f"{graph.name}@{target.name}",
            why="kernels run through one memory",
            fix=f"leave tiles out of the 'holds' of '{found[1].name}'",
        )
    return found[0] if found else None


def near_of(memory: Memory, target: Target, options: Options, kernel: Kernel | None) -> Near:
    """Return what a near memory offers to a kernel, or to any."""
    is_timed = memory.copy_bytes_per_cycle > 0 and options.optimize == "speed"
    align = max(memory.align_bytes, target.dma.align_bytes if target.dma else 1)
    return Near(
        size_bytes=memory.size_bytes if memory.size_bytes is not None else 1 << 40,
        align_bytes=align,
        setup_cycles=memory.copy_setup_cycles,
        bytes_per_cycle=memory.copy_bytes_per_cycle,
        cycles=kernel.cycles if kernel else 0,
        objective="time" if is_timed else "traffic",
        buffers=2,
    )


def tiling(kernel: Kernel, space: TileSpace, near: Near) -> Tiling | None:
    """Return the cheapest tiling of a kernel, None if none fits."""
    found = search(space, near)
    if found is None:
        return None
    return planned(kernel.name, space, found.loops, near, found.doubled)


def planned(
    kernel: str,
    space: TileSpace,
    loops: Sequence[tuple[str, int]],
    near: Near,
    doubled: frozenset[str],
) -> Tiling:
    """Return the tiling that runs through given loops, outermost first, reductions innermost.

    doubled: operands of two buffers.
    """
    moved = list(moves(space, loops))
    cut = {axis for axis, _ in loops}
    reduction = tuple(a for a in space.axes[len(space.axes) - space.reduce :] if a in cut)
    return Tiling(
        kernel=kernel,
        memory="",
        loops=tuple(Cut(axis, size) for axis, size in loops),
        buffers=tuple(_buffers(space, loops, reduction, near, doubled)),
        tasks=prod(-(-space.nest.extent[axis] // size) for axis, size in loops),
        transfers=len(moved),
        traffic_bytes=sum(move.size_bytes for move in moved),
        reduction=reduction,
        cycles=round(replayed(space, loops, moved, near, doubled)),
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
    if reduction:
        sizes = dict(loops)
        kept = [a for a in space.nest.domain if space.nest.extent[a] > 1]
        shape = tuple(sizes.get(a, space.nest.extent[a]) for a in kept)
        for step in space.nest.steps:
            for fold in step.folds:
                place(f"{fold.name}_sums", STORED[fold.type], shape, 1)
    return found


def _largest(space: TileSpace, loops: Sequence[tuple[str, int]]) -> Mapping[str, tuple[int, ...]]:
    """Return the extents of the smallest buffer that holds every window of an operand."""
    found: dict[str, list[int]] = {m.operand.name: [0] * len(m.view) for m in space.moved}
    for moved in space.moved:
        axes = deciding(moved, [axis for axis, _ in loops])
        extents = found[moved.operand.name]
        for box in boxes([loop for loop in loops if loop[0] in axes], space.nest.extent):
            for axis, (first, last) in enumerate(window(moved, box)):
                extents[axis] = max(extents[axis], last - first)
    return {name: tuple(extents) for name, extents in found.items()}
