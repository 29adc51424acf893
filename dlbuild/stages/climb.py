"""Hill climb over placement orders: swap turns around the highest life, keep what is no worse.

The idea is Vela's (hillclimb_allocation.py); the moves are chosen by a generator with a fixed
seed and counted, so a run ends at the same placement on every machine.
"""

from collections.abc import Sequence
from random import Random

from dlbuild.stages.firstfit import Order, first_fit
from dlbuild.stages.problem import Bytes, Problem

PATIENCE = 50
"""Turns without gain after which a move swaps two pairs instead of one."""


def climb(problem: Problem, start: Order, turns: int) -> tuple[tuple[Bytes, ...], int]:
    """Return the best offsets found and the turns used; stops at the lower bound."""
    order = list(start)
    offsets = first_fit(problem, order)
    assert offsets is not None, "first fit without a limit places everything"
    height = problem.height_bytes(offsets)
    random = Random(1)  # noqa: S311 - a search, not a secret
    stuck = 0
    for turn in range(turns):
        if height <= problem.bound_bytes:
            return offsets, turn
        tried = list(order)
        for _ in range(1 if stuck < PATIENCE else 2):
            _swap(problem, tried, offsets, random)
        found = first_fit(problem, tried, height + 1)
        if found is None:
            stuck += 1
            continue
        reached = problem.height_bytes(found)
        stuck = 0 if reached < height else stuck + 1
        order, offsets, height = tried, found, reached
    return offsets, turns


def _swap(problem: Problem, order: list[int], offsets: Sequence[int], random: Random) -> None:
    """Exchange the turns of the highest life, or one that meets it, and one placed before it."""
    lives = problem.lives
    highest = max(range(len(lives)), key=lambda i: (offsets[i] + lives[i].size_bytes, -i))
    around = [i for i in range(len(lives)) if problem.meetings[highest] >> i & 1]
    one = _pick([highest, *around], random)
    near = [i for i in range(len(lives)) if problem.meetings[one] >> i & 1] or [one]
    other = _pick(near, random)
    first, second = order.index(one), order.index(other)
    order[first], order[second] = order[second], order[first]


def _pick(choices: Sequence[int], random: Random) -> int:
    # random() alone is promised to give the same numbers in every version of Python.
    return choices[int(random.random() * len(choices))]
