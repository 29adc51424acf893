"""Branch and bound over canonical placements: offsets within a capacity, or proof of none.

The ideas are those published with MiniMalloc (Moffitt, ISMM 2023):

- canonical: lives are placed in order of their offsets, each as low as those placed before it
  allow; of equal offsets the one with the lower rank comes first;
- dominance: a life that would begin where another one could already have ended is not tried;
- a crowd is a largest set of lives that one step needs; what is still to be placed of it, begun
  at its lowest possible offset, must end below the capacity;
- parts of the problem that no longer meet in time are solved one after the other.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlbuild.stages.problem import Bytes, Problem

Ints = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

_FAR = np.iinfo(np.int64).max // 4


class OutOfNodesError(Exception):
    """The search used up its nodes before it found or proved anything."""


def fit(problem: Problem, capacity: int, nodes: int) -> tuple[tuple[Bytes, ...] | None, int]:
    """Search for offsets with a height of at most `capacity`; every life has bytes.

    Returns:
        the offsets, or None if there are none, and the nodes used.

    Raises:
        OutOfNodesError: neither was found within `nodes`.
    """
    used = 0
    share = max(nodes // 16, 1)
    searches = [_Search(problem, capacity, rank) for rank in _ranks(problem)]
    while used < nodes:
        for search in searches:
            search.left = min(share, nodes - used)
            budget = search.left
            try:
                found = search.run()
            except OutOfNodesError:
                used += budget
                continue
            return found, used + budget - search.left
        share *= 2
    raise OutOfNodesError


def _ranks(problem: Problem) -> Iterator[Ints]:
    """Yield the three static orders of MiniMalloc: width, area and total in turn decide first."""
    lives = problem.lives
    width = [life.last_step - life.first_step for life in lives]
    area = [life.size_bytes * span for life, span in zip(lives, width, strict=True)]
    crowds = _crowds(problem)
    size = np.array([life.size_bytes for life in lives], dtype=np.int64)
    total = (crowds * (crowds.astype(np.int64) @ size)[:, None]).max(axis=0, initial=0)
    for keys in ((width, area, total), (total, area, width), (total, width, area)):
        order = np.lexsort([np.negative(key) for key in reversed(keys)])
        rank = np.empty(len(lives), dtype=np.int64)
        rank[order] = np.arange(len(lives))
        yield rank


def _crowds(problem: Problem) -> Truths:
    """Return for each largest set of lives that one step needs, who is in it (a row each)."""
    lives = problem.lives
    first = np.array([life.first_step for life in lives], dtype=np.int64)
    last = np.array([life.last_step for life in lives], dtype=np.int64)
    # A set is largest where a life begins and one ends before the next begins.
    begins = np.unique(first)
    rows = [
        (first <= step) & (step < last)
        for step, following in zip(begins, [*begins[1:], _FAR], strict=True)
        if ((first <= step) & (step < last) & (last <= following)).any()
    ]
    return np.array(rows, dtype=np.bool_).reshape(len(rows), len(lives))


@dataclass(frozen=True, slots=True)
class _Node:
    """What is known when some lives are placed.

    waiting: numbers of the lives of this part still to be placed, by rank.
    lowest: for every life, the offset that those placed before it allow.
    floor, floor_rank: offset and rank of the life placed last.
    """

    waiting: Ints
    lowest: Ints
    floor: int
    floor_rank: int


Outcome = Generator["Outcome", bool | None, bool]
"""A search that asks for the outcome of another one by yielding it, and returns its own."""


def outcome(search: Outcome) -> bool:
    """Run nested searches on a stack of our own: thousands of lives are no recursion."""
    stack: list[Outcome] = [search]
    answer: bool | None = None  # None starts a generator
    while stack:
        try:
            stack.append(stack[-1].send(answer))
            answer = None
        except StopIteration as end:
            stack.pop()
            answer = end.value
    return bool(answer)


class _Search:
    """One run with one static order; `left` counts the nodes down."""

    def __init__(self, problem: Problem, capacity: int, rank: Ints) -> None:
        lives = problem.lives
        self.capacity = capacity
        self.rank = rank
        self.left = 0
        self.first = np.array([life.first_step for life in lives], dtype=np.int64)
        self.last = np.array([life.last_step for life in lives], dtype=np.int64)
        self.size = np.array([life.size_bytes for life in lives], dtype=np.int64)
        self.align = np.array([life.align_bytes for life in lives], dtype=np.int64)
        self.meets = (self.first[:, None] < self.last) & (self.first < self.last[:, None])
        self.crowds = _crowds(problem)
        self.offsets = np.zeros(len(lives), dtype=np.int64)

    def run(self) -> tuple[Bytes, ...] | None:
        waiting = np.argsort(self.rank)
        root = _Node(waiting, np.zeros(len(waiting), dtype=np.int64), 0, -1)
        if not outcome(self._parts(root, self.crowds)):
            return None
        return tuple(Bytes(int(offset)) for offset in self.offsets)

    def _parts(self, node: _Node, crowds: Truths) -> Outcome:
        """Solve each set that does not meet the others in time, the largest first."""
        by_time = node.waiting[np.argsort(self.first[node.waiting], kind="stable")]
        reach = np.maximum.accumulate(self.last[by_time])
        cuts = np.flatnonzero(self.first[by_time][1:] >= reach[:-1]) + 1
        parts = [part for part in np.split(by_time, cuts) if len(part)]
        for part in sorted(parts, key=lambda part: -int(self.size[part].sum())):
            ranked = part[np.argsort(self.rank[part])]
            below = _Node(ranked, node.lowest, node.floor, node.floor_rank)
            if not (yield self._solve(below, crowds)):
                return False
        return True

    def _solve(self, node: _Node, crowds: Truths) -> Outcome:
        """Place one life of a part, then the rest."""
        if self.left <= 0:
            raise OutOfNodesError
        self.left -= 1
        waiting, size = node.waiting, self.size[node.waiting]
        align = self.align[waiting]
        at = -(-np.maximum(node.lowest[waiting], node.floor) // align) * align
        end = at + size
        crowds = crowds[crowds[:, waiting].any(axis=1)]
        if end.max() > self.capacity or self._is_too_crowded(crowds[:, waiting], at, size):
            return False
        candidates = np.flatnonzero(at < end.min())
        for place in candidates[np.argsort(at[candidates], kind="stable")]:
            number, offset = int(waiting[place]), int(at[place])
            rank = int(self.rank[number])
            if offset == node.floor and rank < node.floor_rank:
                continue
            raised = np.where(self.meets[number], offset + self.size[number], 0)
            self.offsets[number] = offset
            lowest = np.maximum(node.lowest, raised)
            rest = _Node(np.delete(waiting, place), lowest, offset, rank)
            if (yield self._parts(rest, crowds)):
                return True
        return False

    def _is_too_crowded(self, inside: Truths, at: Ints, size: Ints) -> bool:
        """Say whether some crowd's lives cannot be stacked below the capacity.

        Those that begin at `at` or later need the sum of their sizes above it.
        """
        order = np.argsort(-at, kind="stable")
        above = np.cumsum(inside[:, order] * size[order], axis=1)
        return bool((np.where(inside[:, order], above + at[order], 0) > self.capacity).any())
