"""Kernels that run through a near memory: how each is cut, and where its windows lie there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import Cut, NearBuffer, Tiling
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.tiles import STORED
from dlbuild.stages.spaces import space_of
from dlbuild.stages.tasks import boxes, deciding, moves
from dlbuild.stages.tile_search import Near, search
from dlbuild.stages.tile_space import TileSpace, window

TILES = "tiles"
"""What a near memory `holds`: parts of tensors that lie in another memory."""


def near_plan(
    graph: Graph, profile: Profile, target: Target, options: Options, book: RuleBook
) -> tuple[Tiling, ...]:
    """Return how each kernel runs through the near memory of a target; nothing if it has none.

    A kernel that cannot be cut, or not so small that it fits, reads and writes the far memory.

    Raises:
        UserError: another memory holds tiles too, or an option needs strips.
    """
    memory = tile_memory(target)
    if memory is None:
        return ()
    _check_alone(graph, memory, target)
    wish = wish_of(target, options)
    tilings = []
    for kernel in profile.kernels:
        if kernel.alias is not None:
            continue
        instance = instance_of(kernel, graph, book, wish)
        space = space_of(kernel, instance, graph, profile)
        found = space and tiling(kernel, space, near_of(memory, target, options, kernel))
        if found:
            tilings.append(replace(found, memory=memory.name))
    if tilings:
        _check_options(graph, memory, target, options)
    return tuple(tilings)


def _check_alone(graph: Graph, memory: Memory, target: Target) -> None:
    where = f"{graph.name}@{target.name}"
    others = [m.name for m in target.memories if TILES in m.holds and m != memory]
    if others:
        raise UserError(
            f"memory '{others[0]}' holds tiles, as '{memory.name}' does",
            where=where,
            why="kernels run through one memory",
            fix=f"leave tiles out of the 'holds' of '{others[0]}'",
        )


def _check_options(graph: Graph, memory: Memory, target: Target, options: Options) -> None:
    """Refuse what only strips can do: where kernels run through a near memory there are none."""
    for key, value, goes, default in (
        ("input", options.input, options.input in {"caller", "arena"}, "caller"),
        ("max_recompute", options.max_recompute, options.max_recompute <= 1, "1.0"),
    ):
        if not goes:
            raise UserError(
                f"'{key}: {value}' does not go with memory '{memory.name}', which holds tiles",
                where=f"{graph.name}@{target.name}",
                why="it needs strips; kernels that run through a near memory do so one by one",
                fix=f"set {key}: {default}, or leave tiles out of the memory's 'holds'",
            )


def tile_memory(target: Target) -> Memory | None:
    """Return the memory that holds tiles, None if there is none."""
    return next((m for m in target.memories if TILES in m.holds), None)


def near_of(memory: Memory, target: Target, options: Options, kernel: Kernel) -> Near:
    """Return what a near memory offers to a kernel."""
    is_timed = memory.copy_bytes_per_cycle > 0 and options.optimize == "speed"
    align = max(memory.align_bytes, target.dma.align_bytes if target.dma else 1)
    return Near(
        size_bytes=memory.size_bytes if memory.size_bytes is not None else 1 << 40,
        align_bytes=align,
        setup_cycles=memory.copy_setup_cycles,
        bytes_per_cycle=memory.copy_bytes_per_cycle,
        cycles=kernel.cycles,
        objective="time" if is_timed else "traffic",
        buffers=2,
    )


def tiling(kernel: Kernel, space: TileSpace, near: Near) -> Tiling | None:
    """Return the cheapest tiling of a kernel, None if none fits."""
    found = search(space, near)
    if found is None:
        return None
    return replace(planned(kernel.name, space, found.loops, near), cycles=round(found.cycles))


def planned(kernel: str, space: TileSpace, loops: Sequence[tuple[str, int]], near: Near) -> Tiling:
    """Return the tiling that runs through given loops, outermost first, reductions innermost."""
    moved = list(moves(space, loops))
    cut = {axis for axis, _ in loops}
    reduction = tuple(a for a in space.axes[len(space.axes) - space.reduce :] if a in cut)
    return Tiling(
        kernel=kernel,
        memory="",
        loops=tuple(Cut(axis, size) for axis, size in loops),
        buffers=tuple(_buffers(space, loops, reduction, near)),
        tasks=prod(-(-space.nest.extent[axis] // size) for axis, size in loops),
        transfers=len(moved),
        traffic_bytes=sum(move.size_bytes for move in moved),
        reduction=reduction,
    )


def _buffers(
    space: TileSpace, loops: Sequence[tuple[str, int]], reduction: Sequence[str], near: Near
) -> list[NearBuffer]:
    """Place the windows one behind the other."""
    cut = {axis for axis, _ in loops}
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
        names = {space.axes[number] for number in space.cuts(moved)}
        copies = near.buffers if names & cut else 1
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
