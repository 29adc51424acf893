"""When each step of a schedule begins and ends, predicted from what kernels cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.ir.costs import Costs
from dlbuild.ir.schedule import Schedule, Step, Wait
from dlbuild.ir.tile_plan import TilePlan

WAIT_COST = 20
"""What a wait costs that need not wait, and the signal that it waits for: about twenty
instructions of straight-line code on RV32."""


@dataclass(frozen=True, slots=True)
class Span:
    """When a step begins and ends."""

    start: int
    end: int


def time_of(tiles: TilePlan, costs: Costs) -> Callable[[Step], int]:
    """Return the function that says how long a step takes."""
    share = {(tile.kernel, tile.number): tile.share for tile in tiles.tiles}

    def time(step: Step) -> int:
        if not step.is_code:
            return 0
        return round(costs.of[step.kernel].cost * share[step.kernel, step.tile])

    return time


def timeline(steps: Sequence[Step], time: Callable[[Step], int]) -> Mapping[int, Span]:
    """Return the span of each step by its number; each core does its steps in order."""
    free: dict[int, int] = {}
    found: dict[int, Span] = {}
    for step in steps:
        start = free.get(step.core, 0)
        for wait in step.waits:
            # What is not there is of a run before the first.
            if not wait.lag and wait.step in found:
                start = max(start, found[wait.step].end)
            start += WAIT_COST
        found[step.number] = Span(start, start + time(step))
        free[step.core] = found[step.number].end
    return found


def makespan(schedule: Schedule, tiles: TilePlan, costs: Costs) -> int:
    """Return when the last step ends."""
    spans = timeline(schedule.steps, time_of(tiles, costs))
    return max((span.end for span in spans.values()), default=0)


RUNS = 4
"""From so many runs on, those of a stream end at equal distances, or nearly."""


def period(schedule: Schedule, tiles: TilePlan, costs: Costs) -> int:
    """Return the time from the end of one run to that of the next, of many in a stream."""
    time, count = time_of(tiles, costs), len(schedule.steps)
    steps = [
        replace(
            step,
            number=run * count + step.number,
            waits=tuple(
                Wait(wait.core, (run - wait.lag) * count + wait.step) for wait in step.waits
            ),
        )
        for run in range(2 * RUNS)
        for step in schedule.steps
    ]
    spans = timeline(steps, time)
    ends = [
        max(span.end for number, span in spans.items() if number // count == run)
        for run in (RUNS - 1, 2 * RUNS - 1)
    ]
    return (ends[1] - ends[0]) // RUNS
