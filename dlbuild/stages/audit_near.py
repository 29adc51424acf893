"""Check what a schedule says of a near memory."""

from collections.abc import Iterator, Mapping

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.schedule import Buffer, MemoryUse, Schedule
from dlbuild.ir.target import Target
from dlbuild.ir.tile_plan import Level, TilePlan, Tiling


def needed_windows(tiles: TilePlan) -> Mapping[str, int]:
    """Return the bytes of all windows of each operand of each kernel."""
    return {
        f"{b.operand} of {tiling.kernel}{suffix}": b.copies * b.stride_bytes
        for tiling in tiles.tilings
        for level, suffix in _levels(tiling)
        for b in level.buffers
    }


def _levels(tiling: Tiling) -> Iterator[tuple[Level, str]]:
    yield tiling, ""
    if tiling.around:
        yield tiling.around, " on its way"


def near_faults(tiles: TilePlan, schedule: Schedule, target: Target) -> Iterator[str]:
    """Yield what is wrong: where windows lie and when, what stays beside them, how full that is."""
    near = schedule.memories[max(len(target.clusters), 1) :]
    stated = [use.memory for use in near if use.is_near]
    used = {level.memory for tiling in tiles.tilings for level, _ in _levels(tiling)}
    for name in used | {resident.memory for resident in tiles.residents}:
        if stated.count(name) != 1:
            yield f"the use of {name} is stated {stated.count(name)} times"
    for tiling in tiles.tilings:
        yield from _window_faults(tiling, schedule)
    for resident in tiles.residents:
        buffer = schedule.buffer.get(resident.tensor)
        place = (resident.memory, resident.offset_bytes)
        if buffer is None or buffer.alias_of or (buffer.memory, buffer.offset_bytes) != place:
            yield f"{resident.tensor} should stay in {place[0]} at {place[1]}"
    for use in near:
        yield from _use_faults(tiles, use, schedule, target)


def _window_faults(tiling: Tiling, schedule: Schedule) -> Iterator[str]:
    steps = [step.number for step in schedule.steps if step.kernel == tiling.kernel]
    for level, suffix in _levels(tiling):
        for b in level.buffers:
            name = f"{b.operand} of {tiling.kernel}{suffix}"
            window = schedule.buffer.get(name)
            place = (level.memory, b.offset_bytes)
            if window is None or (window.memory, window.offset_bytes) != place:
                yield f"the windows of {name} lie elsewhere"
            elif [*range(window.first_step, window.last_step)] != steps:
                yield f"{name} is there from step {window.first_step} on, not in {steps}"


def _use_faults(
    tiles: TilePlan, use: MemoryUse, schedule: Schedule, target: Target
) -> Iterator[str]:
    memory = {m.name: m for m in target.memories}.get(use.memory)
    if memory is None or "tiles" not in memory.holds:
        yield f"{use.memory} may not hold tiles"
        return
    here = [b for b in schedule.buffers if b.memory == use.memory]
    staying = {r.tensor for r in tiles.residents if r.memory == use.memory}
    for buffer in here:
        if not buffer.dtype and (buffer.alias_of or buffer.tensor) not in staying:
            yield f"{buffer.tensor} lies in {use.memory}, which is not planned"
    top = max([0, *(b.offset_bytes + b.size_bytes for b in here)])
    if use.height_bytes != top or use.budget_bytes != memory.size_bytes:
        yield f"{use.memory} is filled to {top} B, not to {use.height_bytes}"
    if use.bound_bytes > use.height_bytes:
        yield f"{use.memory} is below its lower bound"
    if memory.size_bytes is not None and use.height_bytes > memory.size_bytes:
        yield f"{use.memory} holds {use.height_bytes} B, more than its budget"
    yield from _alignment_faults(here, memory.align_bytes)


def _alignment_faults(here: list[Buffer], align_bytes: int) -> Iterator[str]:
    for buffer in here:
        element = DTYPES[buffer.dtype].bits // 8 if buffer.dtype else 1
        if not buffer.alias_of and buffer.offset_bytes % max(align_bytes, element):
            yield f"{buffer.tensor} lies at {buffer.offset_bytes}, which is not aligned"
