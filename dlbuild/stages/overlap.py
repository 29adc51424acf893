"""Placement where a life may lie on part of another: a strip writes over what it has read.

First fit over orders of falling size, the sizes shaken a little each time; candidates are the ends
of what is placed, the cap, and the least distances. From some of them hill climbs go on, which
change turns of lives, or let one lie high in place of low. What that leaves above the bound, branch
and bound lowers. Counted tries and a fixed seed: the same problem has the same solution everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from dlbuild.stages.place import Solution, lowered, place
from dlbuild.stages.problem import Bytes, Live, Problem, aligned

TRIES = 40
"""Orders of falling size."""

CLIMBS = 5
TURNS = 1_000
"""Turns of each hill climb for a problem of up to TYPICAL lives; one on a larger one costs more."""

TYPICAL = 100

NODES = 6_000
"""Nodes of the branch and bound."""

LEAST_SHAKE = 0.2

HIGH_SHARE = 0.1
INSERT_SHARE = 0.55
"""Of the turns of a hill climb, those up to the first let a life lie high in place of low, or low
again; those up to the second give a life the turn before another one; the rest exchange turns."""

FAR_SHARE = 0.3
"""So many of them change what meets a neighbour of what is too high."""


def place_overlapping(problem: Problem) -> Solution:
    """Return the lowest placement found."""
    if not problem.apart:
        return place(problem)
    search = _Search(problem)
    best = search.found()
    height = problem.height_bytes(best.offsets)
    found_first = Solution(best.offsets, height, problem.bound_bytes, "first fit with overlaps")
    return lowered(found_first, problem, NODES, 0)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Lives placed by first fit.

    order: numbers of the lives, first placed first. is_high: of each life, whether it lies at the
    highest place below the bound, not at the lowest.
    """

    order: tuple[int, ...]
    is_high: tuple[bool, ...]
    offsets: tuple[Bytes, ...]


@dataclass(frozen=True)
class _Search:
    problem: Problem

    @cached_property
    def random(self) -> Random:
        """The generator, whose numbers are the same in every version of Python."""
        return Random(1)  # noqa: S311 - a search, not a secret

    @cached_property
    def near(self) -> tuple[tuple[tuple[int, int | None, int | None], ...], ...]:
        """For each life those that meet it: how far above one, and below it, it may begin."""
        distances, lives = self.problem.distances, range(len(self.problem.lives))
        return tuple(
            tuple(
                (other, distances.get((other, number)), distances.get((number, other)))
                for other in lives
                if met >> other & 1
            )
            for number, met in enumerate(self.problem.meetings)
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each life."""
        return tuple(life.size_bytes for life in self.problem.lives)

    def found(self) -> _Fit:
        """Return the lowest placement of first fits and hill climbs."""
        lives, bound = self.problem.lives, self.problem.bound_bytes
        best = self._fallen([1.0] * len(lives), [False] * len(lives))
        for number in range(1, TRIES):
            if self._height(best) <= bound:
                return best
            weights = [self.random.random() for _ in lives]
            is_high = [number % 2 == 1 and self.random.random() >= 1 / 2 for _ in lives]
            best = min(best, self._fallen(weights, is_high), key=self._height)
        start = best
        for _ in range(CLIMBS):
            best = min(best, self._climbed(start), key=self._height)
            if self._height(best) <= bound:
                break
            start = self._fallen([self.random.random() for _ in lives], [False] * len(lives))
        return best

    def _height(self, fit: _Fit) -> int:
        return self.problem.height_bytes(fit.offsets)

    def _over(self, fit: _Fit) -> int:
        """Return by how much lives end above the bound, all together."""
        bound, lives = self.problem.bound_bytes, self.problem.lives
        ends = (at + life.size_bytes for at, life in zip(fit.offsets, lives, strict=True))
        return sum(end - bound for end in ends if end > bound)

    def _fallen(self, weights: Sequence[float], is_high: Sequence[bool]) -> _Fit:
        """Return the placement in an order of falling size.

        Args:
            weights: in [0, 1]; how much of a life's size counts for its turn.
            is_high: see _Fit.
        """
        shaken = [
            life.size_bytes * (LEAST_SHAKE + (1 - LEAST_SHAKE) * weight)
            for life, weight in zip(self.problem.lives, weights, strict=True)
        ]
        return self._placed(sorted(range(len(shaken)), key=lambda n: (-shaken[n], n)), is_high)

    def _climbed(self, fit: _Fit) -> _Fit:
        """Return the lowest of what changes lead to, none of which lets more end above the bound.

        That sum tells better than the height whether a change leads on: lives that rise or sink
        together seldom do so in one turn.
        """
        best, over = fit, self._over(fit)
        scale = min(1.0, TYPICAL / len(self.problem.lives))
        for _ in range(int(scale * TURNS)):
            if not over:
                break
            tried = self._moved(fit)
            reached = self._over(tried)
            if reached <= over:
                fit, over = tried, reached
                best = min(best, fit, key=self._height)
        return best

    def _moved(self, fit: _Fit) -> _Fit:
        """Return the placement after one change around the highest life."""
        lives = self.problem.lives
        highest = max(range(len(lives)), key=lambda n: (fit.offsets[n] + lives[n].size_bytes, -n))
        one = self._pick([highest, *self._meeting(highest)])
        if self.random.random() < FAR_SHARE:
            one = self._pick([one, *self._meeting(one)])
        order, is_high = list(fit.order), list(fit.is_high)
        share = self.random.random()
        met = self._meeting(one)
        if not met or share < HIGH_SHARE:
            is_high[one] = not is_high[one]
            return self._placed(order, is_high)
        other = self._pick(met)
        mine, theirs = order.index(one), order.index(other)
        if share < INSERT_SHARE:
            order.insert(theirs, order.pop(mine))
        else:
            order[mine], order[theirs] = other, one
        return self._placed(order, is_high)

    def _meeting(self, number: int) -> Sequence[int]:
        return [other for other, _, _ in self.near[number]]

    def _pick(self, choices: Sequence[int]) -> int:
        # random() alone is promised to give the same numbers in every version of Python.
        return choices[int(self.random.random() * len(choices))]

    def _placed(self, order: Sequence[int], is_high: Sequence[bool]) -> _Fit:
        """Place the lives in an order."""
        lives = self.problem.lives
        places: dict[int, int] = {}
        for number in order:
            barred = self._barred(number, places)
            highest = self._highest(number, barred) if is_high[number] else -1
            places[number] = highest if highest >= 0 else _lowest(lives[number], barred)
        offsets = tuple(Bytes(places[number]) for number in range(len(lives)))
        return _Fit(tuple(order), tuple(is_high), offsets)

    def _barred(self, number: int, places: Mapping[int, int]) -> list[tuple[int, int]]:
        """Return (low, high) for each life that is placed and meets another, which may begin at
        `low` or below it, or at `high` or above it.
        """
        size = self.sizes
        return [
            (
                there - (size[number] if below is None else min(below, size[number])),
                there + (size[other] if above is None else min(above, size[other])),
            )
            for other, above, below in self.near[number]
            if (there := places.get(other)) is not None
        ]

    def _highest(self, number: int, barred: Sequence[tuple[int, int]]) -> int:
        """Return the highest place of a life that ends below the bound, or a negative number."""
        life = self.problem.lives[number]
        at = (self.problem.bound_bytes - life.size_bytes) // life.align_bytes * life.align_bytes
        for low, high in sorted(barred, key=lambda one: -one[1]):
            if at >= high:
                break
            if at > low:
                at = low // life.align_bytes * life.align_bytes
        return at


def _lowest(life: Live, barred: Sequence[tuple[int, int]]) -> int:
    """Return the lowest place of a life."""
    at = 0
    for low, high in sorted(barred):
        if at <= low:
            break
        if at < high:
            at = aligned(high, life.align_bytes)
    return at
