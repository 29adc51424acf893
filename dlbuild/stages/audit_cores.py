"""Check a schedule of several cores the simple way: who may run at the same time, and what meets.

Nothing of what made the waits is used. The order that they enforce is found by running all cores
on paper, then every pair of steps of different cores is compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule, Step, Wait
from dlbuild.ir.tile_plan import TilePlan, Touch
from dlbuild.stages.audit import AuditError


def audit_cores(graph: Graph, profile: Profile, tiles: TilePlan, schedule: Schedule) -> None:
    """Prove that every two steps that touch the same bytes are ordered, and that all steps run.

    Raises:
        AuditError: names the two steps and the tensors, or the step that waits for ever.
    """
    streamed = _as_stream(schedule) if graph.clusters.is_stream else schedule
    for check, plan in (
        (_parts, schedule),
        (_named, streamed),
        (_deadlocks, streamed),
        (_races, streamed),
    ):
        for fault in check(graph, profile, tiles, plan):
            raise AuditError(fault)


def _as_stream(schedule: Schedule) -> Schedule:
    """Return two runs, one behind the other, as one, for cores that may begin the second early.

    What is ordered in two neighbouring runs is ordered in all: a step comes behind the same step
    of the run before.
    """
    count = len(schedule.steps)
    steps = tuple(
        replace(
            step,
            number=run * count + step.number,
            waits=tuple(
                Wait(wait.core, (run - wait.lag) * count + wait.step)
                for wait in step.waits
                if wait.lag <= run
            ),
        )
        for run in range(2)
        for step in schedule.steps
    )
    return replace(schedule, steps=steps)


def _at(step: Step) -> str:
    return f"step {step.number} ({step.kernel}, core {step.core})"


def _parts(graph: Graph, profile: Profile, tiles: TilePlan, schedule: Schedule) -> Iterator[str]:
    """The tiles of a divided kernel write all of its results, and nothing twice."""
    for kernel in profile.kernels:
        numbers = [tile.number for tile in tiles.tiles if tile.kernel == kernel.name and tile.boxes]
        if not numbers:
            continue
        for tensor in kernel.writes:
            written = [
                touch
                for touch in tiles.touches
                if (touch.kernel, touch.tensor, touch.is_write) == (kernel.name, tensor, True)
            ]
            if sorted(touch.tile for touch in written) != sorted(numbers):
                yield f"not every tile of {kernel.name} says what it writes of {tensor}"
            if sum(_volume(touch) for touch in written) != graph.tensor[tensor].count:
                yield f"the tiles of {kernel.name} do not write all of {tensor}, or some twice"
            for one, other in _pairs(written):
                if _boxes_meet(one, other):
                    yield f"tiles {one.tile} and {other.tile} of {kernel.name} write the same"
        missing = set(kernel.reads) - {t.tensor for t in tiles.touches if t.kernel == kernel.name}
        if missing:
            yield f"the tiles of {kernel.name} do not say what they read of {min(missing)}"
    steps = {(step.kernel, step.tile) for step in schedule.steps}
    if len(steps) != len(schedule.steps):
        yield "a tile is scheduled twice"


def _volume(touch: Touch) -> int:
    volume = 1
    for first, last in touch.ranges:
        volume *= last - first
    return volume


def _pairs(touches: Sequence[Touch]) -> Iterator[tuple[Touch, Touch]]:
    for number, one in enumerate(touches):
        for other in touches[:number]:
            yield one, other


def _boxes_meet(one: Touch, other: Touch) -> bool:
    return one.view != other.view or all(
        a < d and c < b for (a, b), (c, d) in zip(one.ranges, other.ranges, strict=True)
    )


def _named(graph: Graph, profile: Profile, tiles: TilePlan, schedule: Schedule) -> Iterator[str]:
    """Steps with code wait for steps with code, of the core that they name."""
    del graph, profile, tiles
    core_of = {step.number: step.core for step in schedule.steps if step.is_code}
    for step in schedule.steps:
        if step.waits and not step.is_code:
            yield f"{_at(step)} waits, but has no code"
        for wait in step.waits:
            if core_of.get(wait.step) != wait.core or wait.core == step.core:
                yield f"{_at(step)} waits for step {wait.step}, which core {wait.core} does not do"


def _deadlocks(
    graph: Graph, profile: Profile, tiles: TilePlan, schedule: Schedule
) -> Iterator[str]:
    """Run all cores in turn, each as far as it can, until none can go on."""
    del graph, profile, tiles
    queues: dict[int, list[Step]] = {}
    for step in schedule.steps:
        queues.setdefault(step.core, []).append(step)
    finished: set[int] = set()
    before = -1
    while before < len(finished):
        before = len(finished)
        for queue in queues.values():
            while queue and finished.issuperset(wait.step for wait in queue[0].waits):
                finished.add(queue.pop(0).number)
    for queue in queues.values():
        if queue:
            yield f"{_at(queue[0])} waits for ever"


def _races(graph: Graph, profile: Profile, tiles: TilePlan, schedule: Schedule) -> Iterator[str]:
    """Compare every two steps that no wait orders."""
    del graph
    behind = _ancestors(schedule)
    code = [step for step in schedule.steps if step.is_code]
    touched = {step.number: list(_touched(step, profile, tiles, schedule)) for step in code}
    for number, later in enumerate(code):
        for earlier in code[:number]:
            if earlier.core == later.core or behind[later.number] >> earlier.number & 1:
                continue
            for (one, mine), (other, theirs) in product(
                touched[later.number], touched[earlier.number]
            ):
                if (one.is_write or other.is_write) and _share(one, mine, other, theirs):
                    yield (
                        f"nothing orders {_at(later)} behind {_at(earlier)}:"
                        f" {one.tensor} and {other.tensor} share bytes"
                    )


def _ancestors(schedule: Schedule) -> Mapping[int, int]:
    """Return for each step the steps that are done before it begins, as bits."""
    found: dict[int, int] = {}
    previous: dict[int, int] = {}
    for step in schedule.steps:
        bits = 0
        if step.core in previous:
            before = previous[step.core]
            bits |= found[before] | 1 << before
        for wait in step.waits:
            bits |= found[wait.step] | 1 << wait.step
        found[step.number] = bits
        previous[step.core] = step.number
    return found


Placed = tuple[Touch, tuple[str, int, int]]
"""What is touched, and the region and bytes in which that lies."""


def _touched(step: Step, profile: Profile, tiles: TilePlan, schedule: Schedule) -> Iterator[Placed]:
    kernel = profile.kernel[step.kernel]
    found = [t for t in tiles.touches if (t.kernel, t.tile) == (step.kernel, step.tile)]
    if not found:
        found = [
            Touch(step.kernel, step.tile, name, is_write, (), (), 0, 0)
            for names, is_write in ((kernel.reads, False), (kernel.writes, True))
            for name in names
        ]
        scratch = f"scratch of {step.kernel}"
        if scratch in schedule.buffer:
            whole = ((), (), 0, 0)
            found.append(Touch(step.kernel, step.tile, scratch, True, *whole))  # noqa: FBT003 - is_write
    for touch in found:
        buffer = schedule.buffer[touch.tensor]
        root = buffer.alias_of or buffer.tensor
        region = f"caller's {root}" if buffer.memory == "caller" else buffer.memory
        end = touch.end_byte or buffer.size_bytes
        yield touch, (region, buffer.offset_bytes + touch.first_byte, buffer.offset_bytes + end)


def _share(
    one: Touch, mine: tuple[str, int, int], other: Touch, theirs: tuple[str, int, int]
) -> bool:
    if mine[0] != theirs[0] or mine[1] >= theirs[2] or theirs[1] >= mine[2]:
        return False
    is_same = one.tensor == other.tensor and one.ranges and other.ranges
    return not is_same or _boxes_meet(one, other)
