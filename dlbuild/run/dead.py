"""Bytes of memories that hold nothing between two steps, for programs that overwrite them."""

from collections.abc import Iterator
from dataclasses import dataclass

from dlbuild.ir.schedule import MemoryUse, Schedule


@dataclass(frozen=True, slots=True)
class Dead:
    """Bytes [first, first + count) of a memory that nobody needs once `step` has ended.

    level: 0 is the arena, others are near memories.
    """

    step: int
    level: int
    first: int
    count: int


def dead_after(schedule: Schedule) -> Iterator[Dead]:
    """Yield the bytes that are dead behind each step after which a hook is called.

    Steps of a strip run together; the hook follows the last of them.
    """
    for level, use in enumerate((schedule.memories[0], *schedule.near)):
        yield from _dead_in(schedule, level, use)


def _dead_in(schedule: Schedule, level: int, use: MemoryUse) -> Iterator[Dead]:
    steps = schedule.steps
    for step, after in zip(steps, (*steps[1:], None), strict=True):
        is_inside = after is not None and step.strip and after.strip == step.strip
        if is_inside or not (step.is_code or step.strip):
            continue
        lives = sorted(
            (b.offset_bytes, b.offset_bytes + b.size_bytes)
            for b in schedule.buffers
            if b.memory == use.memory
            and b.first_step <= step.number
            # What lives to the end may be an output, which the caller reads after the last step.
            and (step.number < b.last_step - 1 or (b.last_step == len(steps) and not level))
        )
        at = 0
        for first, end in (*lives, (use.height_bytes, use.height_bytes)):
            if at < first:
                yield Dead(step.number, level, at, first - at)
            at = max(at, end)
