"""Sections of a placement problem: the largest sets of lives that one step needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlbuild.stages.problem import Live

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sections:
    """Which lives each section has, in order of time.

    first, last: for each life the sections [first, last) that it is in.
    members: numbers of lives, section after section. starts: where each begins in it, and the end.
    """

    first: Ints
    last: Ints
    members: Ints
    starts: Ints

    @classmethod
    def of(cls, lives: Sequence[Live]) -> "Sections":
        """Return the sections of lives that each have a step."""
        begins = np.array([life.first_step for life in lives], dtype=np.int64)
        ends = np.array([life.last_step for life in lives], dtype=np.int64)
        # A set is largest where a life begins and one ends before the next begins.
        steps = np.unique(begins)
        inside = (begins <= steps[:, None]) & (steps[:, None] < ends)
        following = np.append(steps[1:], ends.max(initial=0))
        inside = inside[(inside & (ends <= following[:, None])).any(axis=1)]
        counts = inside.sum(axis=1)
        first = inside.argmax(axis=0) if len(inside) else np.zeros(0, dtype=np.int64)
        starts = np.append(0, np.cumsum(counts))
        return cls(first, first + inside.sum(axis=0), np.nonzero(inside)[1], starts)

    def totals(self, size: Ints) -> Ints:
        """Return the sum of the sizes of each section's lives."""
        return np.add.reduceat(size[self.members], self.starts[:-1])

    def minima(self, value: Ints, low: int, high: int) -> Ints:
        """Return the least value among the lives of each of the sections [low, high)."""
        starts = self.starts[low : high + 1]
        members = self.members[starts[0] : starts[-1]]
        return np.minimum.reduceat(value[members], starts[:-1] - starts[0])


def ranks(lives: Sequence[Live], sections: Sections) -> Iterator[Ints]:
    """Yield static orders worth trying: the rank of each life, the first placed first.

    The first is MiniMalloc's (total, width, area); the others solved what it did not.
    """
    size = np.array([life.size_bytes for life in lives], dtype=np.int64)
    width = np.array([life.last_step - life.first_step for life in lives], dtype=np.int64)
    span = sections.last - sections.first
    totals = sections.totals(size)
    spans = zip(sections.first, sections.last, strict=True)
    total = np.array([totals[low:high].max() for low, high in spans], dtype=np.int64)
    begun = sections.first[:, None] < sections.last
    meetings = (begun & begun.T).sum(axis=1)
    for keys in (
        (total, width, size * width),
        (size * span, total, span),
        (span, size * width, total),
        (meetings, size * span, total),
    ):
        order = np.lexsort([-key for key in reversed(keys)])
        rank = np.empty(len(lives), dtype=np.int64)
        rank[order] = np.arange(len(lives))
        yield rank
