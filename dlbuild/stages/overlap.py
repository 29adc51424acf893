"""Placement where a life may lie on part of another: a strip writes over what it has read.

First fit over orders of falling size, the sizes shaken a little each time; candidates are the ends
of what is placed, the cap, and the least distances. What that leaves above the bound, branch and
bound lowers. Counted tries and a fixed seed: the same problem has the same solution everywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from dlbuild.stages.place import Solution, lowered, place
from dlbuild.stages.problem import Bytes, Live, Problem, aligned

TRIES = 40
NODES = 6_000
"""Nodes of the branch and bound."""
LEAST_SHAKE = 0.2


def place_overlapping(problem: Problem) -> Solution:
    """Return the lowest placement found."""
    if not problem.apart:
        return place(problem)
    bound = problem.bound_bytes
    search = _Search(problem, {(a.upper, a.lower): a.distance_bytes for a in problem.apart})
    random = Random(1)  # noqa: S311 - a search, not a secret
    best: tuple[Bytes, ...] = ()
    height = 0
    for number in range(TRIES):
        weights = [1.0 if number == 0 else random.random() for _ in problem.lives]
        sides = [number % 2 == 1 and random.random() >= 1 / 2 for _ in problem.lives]
        offsets = search.placed(weights, sides, bound)
        found = problem.height_bytes(offsets)
        if not best or found < height:
            best, height = offsets, found
        if height <= bound:
            break
    found_first = Solution(best, Bytes(height), bound, "first fit with overlaps")
    return lowered(found_first, problem, NODES, 0)


@dataclass(frozen=True)
class _Search:
    problem: Problem
    distance: dict[tuple[str, str], int]

    def placed(
        self, weights: Sequence[float], sides: Sequence[bool], bound: int
    ) -> tuple[Bytes, ...]:
        """Return offsets by first fit.

        Args:
            weights: in [0, 1); how much of a life's size counts for its turn.
            sides: whether a life is placed at the highest place below the bound, not the lowest.
            bound: the height aimed at.
        """
        lives = self.problem.lives
        shaken = [
            life.size_bytes * (LEAST_SHAKE + (1 - LEAST_SHAKE) * weight)
            for life, weight in zip(lives, weights, strict=True)
        ]
        at: dict[int, int] = {}
        for number in sorted(range(len(lives)), key=lambda n: (-shaken[n], n)):
            size = lives[number].size_bytes
            fitting = [
                offset
                for offset in sorted(set(self._candidates(number, at, bound)))
                if self._fits(number, offset, at)
            ]
            inside = [offset for offset in fitting if offset + size <= bound]
            if inside:
                at[number] = inside[-1] if sides[number] else inside[0]
            else:
                at[number] = fitting[0]
        return tuple(Bytes(at[number]) for number in range(len(lives)))

    def _candidates(self, number: int, at: dict[int, int], bound: int) -> Iterator[int]:
        life = self.problem.lives[number]
        found = [0, bound - life.size_bytes]
        for other, offset in at.items():
            found += [offset + self.problem.lives[other].size_bytes, offset - life.size_bytes]
            above, below = self._apart(life, self.problem.lives[other])
            found += [offset + above] if above is not None else []
            found += [offset - below] if below is not None else []
        for offset in found:
            if offset >= 0:
                yield aligned(offset, life.align_bytes)
                yield offset // life.align_bytes * life.align_bytes

    def _apart(self, life: Live, other: Live) -> tuple[int | None, int | None]:
        """Return how far above the other, and how far below it, a life may begin at least."""
        return (
            self.distance.get((life.name, other.name)),
            self.distance.get((other.name, life.name)),
        )

    def _fits(self, number: int, offset: int, at: dict[int, int]) -> bool:
        life = self.problem.lives[number]
        for other, placed in at.items():
            theirs = self.problem.lives[other]
            if not life.meets(theirs):
                continue
            if offset + life.size_bytes <= placed or placed + theirs.size_bytes <= offset:
                continue
            above, below = self._apart(life, theirs)
            if above is not None and offset >= placed + above:
                continue
            if below is not None and placed >= offset + below:
                continue
            return False
        return True
