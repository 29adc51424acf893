"""Kernels whose tasks are cut again: parts come into a memory between, tasks from there."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dlbuild.ir.graph import Graph
from dlbuild.ir.target import Memory, Target, weights_memory
from dlbuild.ir.tile_plan import Tiling
from dlbuild.stages.cluster_memory import arena_memory
from dlbuild.stages.residency import Cutting, scratch_bytes
from dlbuild.stages.tasks import moves
from dlbuild.stages.tile_search import Near, Table
from dlbuild.stages.tile_space import TileSpace
from dlbuild.stages.tiling import planned


def staged(
    cutting: Cutting,
    staying: frozenset[str],
    size_bytes: int,
    between: Near,
    beyond: frozenset[str],
) -> Tiling | None:
    """Return how a kernel runs in parts of tasks, None if less is not moved from afar by that.

    The kernel is cut for the memory between first, along the axes that suit it, so that the least
    is moved; then each of these parts for the nearest memory. A reduction is cut in tasks alone.

    Args:
        cutting: the ways to cut the kernel.
        staying: tensors that lie in the nearest memory as a whole.
        size_bytes: what is left of that memory.
        between: what the memory between offers.
        beyond: tensors that lie farther than that.
    """
    chosen = cutting.best(staying, size_bytes)
    assert chosen is not None, "what was weighed fits"
    space, one, near = chosen.space, chosen.choice, chosen.near
    names = {m.operand.name for m in space.moved if m.operand.tensor in beyond}
    parts = _parts_space(space).keeping(names)
    found = Table(parts, between).best(between.size_bytes) if names else None
    if found is None:
        return None
    least = sum(m.size_bytes for m in moves(space.keeping(names), one.loops))
    if found.traffic_bytes >= least:
        return None
    outer = planned(cutting.kernel.name, parts, found.loops, between, found.doubled)
    around = dict(found.loops)
    inner = _inside(space, around)
    choice = Table(inner, near, outer=around).best(size_bytes - scratch_bytes(space, near))
    if choice is None or outer.traffic_bytes >= least:
        return None
    return planned(cutting.kernel.name, space, choice.loops, near, choice.doubled, outer)


def tensors_beyond(graph: Graph, between: Memory, target: Target) -> frozenset[str]:
    """Return the tensors that do not lie in a memory as near as the one between, or nearer.

    Those of the caller may lie anywhere.
    """
    nearer = target.memories[: target.memories.index(between) + 1]
    found = set(graph.constants) if weights_memory(target.memories) not in nearer else set()
    if arena_memory(target) not in nearer:
        found |= {tensor.name for tensor in graph.tensors if tensor.name not in graph.constants}
    return frozenset(found | {*graph.inputs, *graph.outputs})


def _parts_space(space: TileSpace) -> TileSpace:
    """Return the ways to cut results into parts that are all of one size."""
    split = len(space.axes) - space.reduce
    kept = zip(space.sizes[:split], space.extents[:split], strict=True)
    sizes = tuple(tuple(s for s in found if extent % s == 0) for found, extent in kept)
    return replace(space, axes=space.axes[:split], sizes=sizes, reduce=0, scratch=())


def _inside(space: TileSpace, around: Mapping[str, int]) -> TileSpace:
    """Return the ways to cut parts of these sizes into equal tasks."""
    return replace(space, sizes=tuple(_sizes_inside(space, around)))


def _sizes_inside(space: TileSpace, around: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
    for axis, sizes in zip(space.axes, space.sizes, strict=True):
        whole = around.get(axis)
        yield sizes if whole is None else tuple(s for s in sizes if whole % s == 0)
