"""Branch and bound over canonical placements: offsets within a capacity, or proof of none.

The ideas are those published with MiniMalloc (Moffitt, ISMM 2023), and one more:

- canonical: lives are placed in order of their offsets, each as low as those placed before it
  allow; of equal offsets the one with the lower rank comes first. If any placement fits, the
  one with the least sum of offsets has this form, so no other one is visited;
- dominance: a life that would begin where another one could already have ended is not tried;
- a section is a largest set of lives that one step needs. What is still to be placed of it lies
  above the lowest offset that any of them can have, and must end below the capacity;
- parts of the problem that no longer meet in time are solved one after the other;
- a life on which no other can lie leaves the rest as it was, so if the rest fails, no other
  choice helps;
- left behind: a life that could lie below the one placed last, but was not chosen before it, can
  only come to lie on top of one that is still to be placed. The lowest such top is its offset.

A life that may share bytes with a lower one begins its distance above it, not at its end.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlbuild.stages.problem import Bytes, Problem
from dlbuild.stages.sections import Ints, Sections, ranks

Truths = npt.NDArray[np.bool_]

FAR = np.iinfo(np.int64).max // 4
"""An offset that no memory has."""

FIRST_SHARE = 4
"""Nodes for each life that every order gets in the first round."""

GROWTH = 4
"""How much more it gets in each further round."""


class OutOfNodesError(Exception):
    """The search used up its nodes before it found or proved anything."""


def fit(problem: Problem, capacity: int, nodes: int) -> tuple[tuple[Bytes, ...] | None, int]:
    """Search for offsets with a height of at most `capacity`; every life has bytes.

    The static orders take turns, each from the start, with more nodes in each round: a good order
    needs hundreds of nodes where another needs millions, and none is good for all problems.

    Returns:
        the offsets, or None if there are none, and the nodes used.

    Raises:
        OutOfNodesError: neither was found within `nodes`.
    """
    sections = Sections.of(problem.lives)
    orders = tuple(ranks(problem.lives, sections))
    used, share = 0, max(FIRST_SHARE * len(problem.lives), 1)
    while used < nodes:
        for rank in orders:
            fair = _lower_first(problem, rank)
            search = _Search(problem, capacity, sections, fair, min(share, nodes - used))
            found = search.run()
            used += search.used
            if search.is_finished:
                return found, used
            if used >= nodes:
                break
        share *= GROWTH
    raise OutOfNodesError


def _lower_first(problem: Problem, rank: Ints) -> Ints:
    """Return the order with the lower first of two lives that may have the same offset."""
    rank = rank.copy()
    pairs = [pair for pair, distance in problem.distances.items() if distance <= 0]
    for _ in pairs:
        for lower, upper in pairs:
            if rank[lower] > rank[upper]:
                rank[lower], rank[upper] = rank[upper], rank[lower]
    return rank


@dataclass(frozen=True, slots=True)
class _Node:
    """What is known when some lives are placed.

    waiting: numbers of the lives of this part still to be placed, by first section.
    lowest: for every life, the offset that those placed before it allow.
    left: for every section, the bytes still to be placed, less what pairs of them may share.
    floor, floor_rank: offset and rank of the life placed last.
    """

    waiting: Ints
    lowest: Ints
    left: Ints
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
    """One run with one static order.

    used: nodes visited. is_finished: it found offsets or proved that there are none.
    """

    def __init__(
        self, problem: Problem, capacity: int, sections: Sections, rank: Ints, nodes: int
    ) -> None:
        lives = problem.lives
        self.capacity = capacity
        self.sections = sections
        self.rank = rank
        self.nodes = nodes
        self.used = 0
        self.is_finished = False
        self.size = np.array([life.size_bytes for life in lives], dtype=np.int64)
        self.align = np.array([life.align_bytes for life in lives], dtype=np.int64)
        self.is_aligned = bool((self.align > 1).any())
        self.first, self.last = sections.first, sections.last
        self.meets = (self.first[:, None] < self.last) & (self.first < self.last[:, None])
        np.fill_diagonal(self.meets, val=False)
        self.given = np.array([life.offset_bytes or 0 for life in lives], dtype=np.int64)
        # A life with a given offset lies there: it can begin no lower and no higher.
        is_given = [life.offset_bytes is not None for life in lives]
        self.highest = np.where(is_given, self.given, capacity - self.size)
        self.offsets = np.zeros(len(lives), dtype=np.int64)
        self.begins = np.full(len(lives), capacity, dtype=np.int64)  # scratch of _is_too_full
        # gap[a, b]: how far above the beginning of `a` the life `b` may begin, if `a` is lower.
        self.gap = np.broadcast_to(self.size[:, None], (len(lives), len(lives))).copy()
        self.shared = np.zeros(self.gap.shape, dtype=np.int64)
        for (lower, upper), distance in problem.distances.items():
            self.gap[lower, upper] = distance
            share = min(self.size[lower] - distance, self.size[upper])
            self.shared[lower, upper] = self.shared[upper, lower] = share
        self.least_gap = self.gap.min(axis=1, initial=FAR)

    def run(self) -> tuple[Bytes, ...] | None:
        waiting = np.argsort(self.first, kind="stable")
        root = _Node(waiting, self.given.copy(), self._totals(), 0, -1)
        try:
            is_found = outcome(self._parts(root))
        except OutOfNodesError:
            return None
        self.is_finished = True
        return tuple(Bytes(int(at)) for at in self.offsets) if is_found else None

    def _totals(self) -> Ints:
        """Return what each section has to hold."""
        left = self.sections.totals(self.size)
        for one, other in zip(*np.nonzero(np.triu(self.shared)), strict=True):
            left[self._both(one, other)] -= self.shared[one, other]
        return left

    def _both(self, one: int, other: int) -> slice:
        """Return the sections in which two lives are."""
        first = max(self.first[one], self.first[other])
        return slice(first, max(first, min(self.last[one], self.last[other])))

    def _parts(self, node: _Node) -> Outcome:
        """Solve each set that does not meet the others in time, the fewest lives first."""
        waiting = node.waiting
        reach = np.maximum.accumulate(self.last[waiting])
        cuts = np.flatnonzero(self.first[waiting[1:]] >= reach[:-1]) + 1
        if not len(waiting):
            return True
        for part in sorted(np.split(waiting, cuts), key=len):
            below = _Node(part, node.lowest, node.left, node.floor, node.floor_rank)
            if not (yield self._solve(below)):
                return False
        return True

    def _solve(self, node: _Node) -> Outcome:
        """Place one life of a part, then the rest."""
        if self.used >= self.nodes:
            raise OutOfNodesError
        self.used += 1
        waiting = node.waiting
        size, rank, lowest = self.size[waiting], self.rank[waiting], node.lowest[waiting]
        end = lowest + size
        is_behind = (lowest < node.floor) | ((lowest == node.floor) & (rank < node.floor_rank))
        at = self._earliest(node, is_behind, lowest)
        if (at > self.highest[waiting]).any() or self._is_too_full(node, at):
            return False
        places = np.flatnonzero(~is_behind & (lowest < end.min()))
        for place in places[np.lexsort((rank[places], lowest[places]))].tolist():
            number, offset = int(waiting[place]), int(lowest[place])
            rest, is_alone = self._placed(node, place, number, offset)
            self.offsets[number] = offset
            if (yield self._parts(rest)):
                return True
            if is_alone:
                return False
        return False

    def _earliest(self, node: _Node, is_behind: Truths, lowest: Ints) -> Ints:
        """Return where each waiting life can begin at the earliest."""
        if not is_behind.any():
            return lowest
        waiting, at = node.waiting, lowest.copy()
        # One left behind lies on another, so it begins at the lowest top.
        lowest_top = np.where(is_behind, FAR, lowest + self.least_gap[waiting]).min()
        begins = np.where(is_behind, lowest_top, lowest)
        behind = waiting[is_behind]
        tops = begins + self.gap[waiting, behind[:, None]]
        under = np.where(self.meets[behind[:, None], waiting], tops, FAR)
        at[is_behind] = self._aligned(under.min(axis=1), behind)
        return at

    def _is_too_full(self, node: _Node, at: Ints) -> bool:
        """Say whether the waiting lives of a section cannot be stacked below the capacity."""
        self.begins[node.waiting] = at
        low, high = self.first[node.waiting[0]], self.last[node.waiting].max()
        lowest = self.sections.minima(self.begins, low, high)
        self.begins[node.waiting] = self.capacity
        return bool((lowest + node.left[low:high] > self.capacity).any())

    def _placed(self, node: _Node, place: int, number: int, offset: int) -> tuple[_Node, bool]:
        """Return the node after one more life, and whether no waiting one can lie on it."""
        waiting = np.delete(node.waiting, place)
        size = self.size[number]
        above = waiting[self.meets[number, waiting]]
        lowest, left = node.lowest.copy(), node.left.copy()
        on_top = self._aligned(offset + self.gap[number, above], above)
        lowest[above] = np.maximum(lowest[above], on_top)
        left[self.first[number] : self.last[number]] -= size
        for other in waiting[self.shared[number, waiting] > 0]:
            left[self._both(number, other)] += self.shared[number, other]
        rest = _Node(waiting, lowest, left, offset, int(self.rank[number]))
        return rest, not len(above)

    def _aligned(self, offset: Ints, lives: Ints) -> Ints:
        if not self.is_aligned:
            return offset
        align = self.align[lives]
        return -(-offset // align) * align
