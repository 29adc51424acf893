"""Greedy placement: lives in some order, each at the lowest offset that is free."""

from bisect import insort
from collections.abc import Iterator, Sequence

from dlbuild.stages.problem import Bytes, Problem, aligned, live_at

Order = tuple[int, ...]
"""Numbers of lives, first placed first."""


def first_fit(
    problem: Problem, order: Sequence[int], below: int | None = None
) -> tuple[Bytes, ...] | None:
    """Place the lives in `order`; give up where one would end at `below` or higher."""
    lives, meetings = problem.lives, problem.meetings
    offsets = [Bytes(0)] * len(lives)
    placed: list[tuple[int, int, int]] = []  # offset, end, number: by offset
    for number in _fixed_first(problem, order):
        life = lives[number]
        at = life.offset_bytes
        if at is None:
            at = _lowest_gap(placed, meetings[number], life.size_bytes, life.align_bytes)
        if below is not None and at + life.size_bytes >= below:
            return None
        offsets[number] = at
        insort(placed, (at, at + life.size_bytes, number))
    return tuple(offsets)


def _fixed_first(problem: Problem, order: Sequence[int]) -> list[int]:
    return sorted(order, key=lambda number: problem.lives[number].offset_bytes is None)


def _lowest_gap(placed: list[tuple[int, int, int]], meets: int, size: int, align: int) -> Bytes:
    at = 0
    for first, end, number in placed:
        if not meets >> number & 1:
            continue
        if at + size <= first:
            break
        if end > at:
            at = aligned(end, align)
    return Bytes(at)


def greedy_orders(problem: Problem) -> Iterator[tuple[str, Order]]:
    """Yield the orders worth trying, each with its name, best known first.

    Sources: size = TFLite Micro's greedy planner; urgency = Vela's start order (the fullest step
    of a life, then its duration); the others: research/tiling.md, section 3.
    """
    lives = problem.lives
    numbers = range(len(lives))
    duration = [life.last_step - life.first_step for life in lives]
    size = [life.size_bytes for life in lives]
    crowd = _crowds(problem)
    keys: dict[str, list[tuple[int, int]]] = {
        "size": [(-size[i], lives[i].first_step) for i in numbers],
        "urgency": [(-crowd[i], -duration[i]) for i in numbers],
        "area": [(-size[i] * duration[i], 0) for i in numbers],
        "duration": [(-duration[i], -size[i]) for i in numbers],
        "start": [(lives[i].first_step, -size[i]) for i in numbers],
        "meetings": [(-problem.meetings[i].bit_count(), -size[i]) for i in numbers],
    }
    for name, key in keys.items():
        yield name, tuple(sorted(numbers, key=key.__getitem__))


def _crowds(problem: Problem) -> list[int]:
    """For each life the largest sum of sizes among the steps that need it."""
    steps = sorted({life.first_step for life in problem.lives})
    sums = {step: sum(life.size_bytes for life in live_at(problem.lives, step)) for step in steps}
    return [
        max(sums[step] for step in steps if life.first_step <= step < life.last_step)
        if life.first_step < life.last_step
        else 0
        for life in problem.lives
    ]
