"""Check what a schedule says of a near memory."""

from collections.abc import Iterator

from dlbuild.ir.schedule import MemoryUse, Schedule
from dlbuild.ir.target import Target
from dlbuild.ir.tile_plan import TilePlan


def near_faults(tiles: TilePlan, schedule: Schedule, target: Target) -> Iterator[str]:
    """Yield what is wrong: a near memory holds the windows of the kernel that needs most."""
    near = schedule.memories[max(len(target.clusters), 1) :]
    stated = [use.memory for use in near]
    for tiling in tiles.tilings:
        if stated.count(tiling.memory) != 1:
            yield f"{tiling.kernel} runs through {tiling.memory}, of which no use is stated"
    for use in near:
        yield from _use_faults(tiles, use, target)


def _use_faults(tiles: TilePlan, use: MemoryUse, target: Target) -> Iterator[str]:
    memory = {m.name: m for m in target.memories}.get(use.memory)
    if memory is None or "tiles" not in memory.holds:
        yield f"{use.memory} may not hold tiles"
        return
    tops = [0]
    for tiling in tiles.tilings:
        tops += [b.offset_bytes + b.copies * b.stride_bytes for b in tiling.buffers]
    if use.height_bytes != max(tops) or use.budget_bytes != memory.size_bytes:
        yield f"{use.memory} is filled to {max(tops)} B, not to {use.height_bytes}"
    if memory.size_bytes is not None and use.height_bytes > memory.size_bytes:
        yield f"{use.memory} holds {use.height_bytes} B, more than its budget"
