"""Give each life an offset so that no two overlap in both time and space.

Cheap orders first, then a hill climb, then branch and bound; the first that reaches the lower
bound ends it. Work is counted in turns and nodes, never in seconds: the same problem has the
same solution everywhere.
"""

from dataclasses import dataclass

from dlbuild.stages.branch import OutOfNodesError, fit
from dlbuild.stages.climb import climb
from dlbuild.stages.firstfit import Order, first_fit, greedy_orders
from dlbuild.stages.problem import Bytes, Problem

TURNS = 400
"""Turns of the hill climb for a problem of up to TYPICAL lives; one on a larger one costs more."""

TYPICAL = 100

NODES = 4_000
"""Nodes of the branch and bound."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Offsets in the order of the problem's lives, and how good they are.

        bytes
          8 |  +---------+
            |  | b       |  c meets b but not a, so it lies where a was:
          4 |  +----+----+----+      height_bytes 8, bound_bytes 8
            |  | a  |    | c  |
          0 +--+----+----+----+-- steps
               0    1    2    3

    solver: which method found them.
    """

    offsets: tuple[Bytes, ...]
    height_bytes: Bytes
    bound_bytes: Bytes
    solver: str

    @property
    def ratio(self) -> float:
        """Height over lower bound; 1.0 is optimal."""
        return self.height_bytes / self.bound_bytes if self.bound_bytes else 1.0


def place(problem: Problem, effort: float = 1.0, enough_bytes: int = 0) -> Solution:
    """Return the lowest placement found with `effort` times the usual work.

    More effort is spent on branch and bound alone: an order that few swaps do not repair is
    seldom repaired by many. Lives with a given offset lie there; they must not overlap each other.

    Args:
        problem: the lives.
        effort: 1.0 for the usual work.
        enough_bytes: a height at which the search may stop above the lower bound.
    """
    best, order = _best_greedy(problem)
    if best.height_bytes <= max(best.bound_bytes, enough_bytes):
        return best
    scale = min(1.0, TYPICAL / len(problem.lives))
    offsets, _ = climb(problem, order, int(min(effort, 1.0) * scale * TURNS))
    best = _better(best, problem, offsets, "hill climb")
    if best.height_bytes <= max(best.bound_bytes, enough_bytes):
        return best
    return lowered(best, problem, int(effort * NODES), enough_bytes)


def _best_greedy(problem: Problem) -> tuple[Solution, Order]:
    best: tuple[Solution, Order] | None = None
    for name, order in greedy_orders(problem):
        limit = best[0].height_bytes if best else None
        offsets = first_fit(problem, order, limit)
        if offsets is not None:
            best = _solution(problem, offsets, f"first fit by {name}"), order
        if best and best[0].height_bytes == problem.bound_bytes:
            break
    assert best is not None, "first fit without a limit places everything"
    return best


def _solution(problem: Problem, offsets: tuple[Bytes, ...], solver: str) -> Solution:
    return Solution(offsets, problem.height_bytes(offsets), problem.bound_bytes, solver)


def _better(best: Solution, problem: Problem, offsets: tuple[Bytes, ...], solver: str) -> Solution:
    found = _solution(problem, offsets, solver)
    return found if found.height_bytes < best.height_bytes else best


def lowered(best: Solution, problem: Problem, nodes: int, enough: int) -> Solution:
    """Lower `best` by branch and bound: what is wanted first, then halves of what is left."""
    used = [number for number, life in enumerate(problem.lives) if life.size_bytes]
    dense = Problem(tuple(problem.lives[number] for number in used), problem.apart)
    low = capacity = max(best.bound_bytes, enough)
    share = nodes // 2
    while nodes > 0 and low < best.height_bytes:
        limit = min(share, nodes)
        try:
            found, spent = fit(dense, capacity, limit)
        except OutOfNodesError:
            found, spent = None, limit
        nodes -= max(spent, 1)
        if found is None:
            low = capacity + 1
        else:
            offsets = [Bytes(0)] * len(problem.lives)
            for number, offset in zip(used, found, strict=True):
                offsets[number] = offset
            best = _better(best, problem, tuple(offsets), "branch and bound")
        capacity = (low + best.height_bytes - 1) // 2
        share = max(nodes // 2, 1)
    return best
