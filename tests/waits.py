"""Schedules of several cores from which a wait is taken away."""

from collections.abc import Iterator
from dataclasses import replace

from dlbuild.ir.schedule import Schedule


def without_a_wait(schedule: Schedule) -> Iterator[Schedule]:
    """Yield the plan without one of its waits, each in turn."""
    for place, step in enumerate(schedule.steps):
        for wait in step.waits:
            fewer = replace(step, waits=tuple(w for w in step.waits if w != wait))
            steps = (*schedule.steps[:place], fewer, *schedule.steps[place + 1 :])
            yield replace(schedule, steps=steps)
