"""The placement problem: lives to be given offsets, and the height that none can beat."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NewType

Bytes = NewType("Bytes", int)
Step = NewType("Step", int)


@dataclass(frozen=True, slots=True)
class Live:
    """Bytes that are needed during the steps [first_step, last_step), at least one.

    align_bytes: the offset is a multiple of it. offset_bytes: where it must lie, if that is given.
    """

    name: str
    size_bytes: Bytes
    first_step: Step
    last_step: Step
    align_bytes: Bytes = Bytes(1)
    offset_bytes: Bytes | None = None

    def meets(self, other: "Live") -> bool:
        """Say whether a step needs both."""
        return self.first_step < other.last_step and other.first_step < self.last_step


@dataclass(frozen=True, slots=True)
class Apart:
    """The life `upper` may share bytes with `lower` if it begins so far above its beginning."""

    upper: str
    lower: str
    distance_bytes: int


@dataclass(frozen=True)
class Problem:
    """Lives that share one memory. apart: those that may lie on part of another."""

    lives: tuple[Live, ...]
    apart: tuple[Apart, ...] = ()

    @cached_property
    def meetings(self) -> tuple[int, ...]:
        """For each life the set of those that meet it, as the bits of a number (its own is 0)."""
        masks = [0] * len(self.lives)
        for number, life in enumerate(self.lives):
            for other in range(number):
                if life.meets(self.lives[other]):
                    masks[number] |= 1 << other
                    masks[other] |= 1 << number
        return tuple(masks)

    @cached_property
    def distances(self) -> Mapping[tuple[int, int], int]:
        """For a lower and an upper life, by their numbers, the least distance of their offsets."""
        number = {life.name: n for n, life in enumerate(self.lives)}
        return {
            (number[a.lower], number[a.upper]): a.distance_bytes
            for a in self.apart
            if a.lower in number and a.upper in number
        }

    @cached_property
    def bound_bytes(self) -> Bytes:
        """The height that no placement can be below."""
        if not self.apart:
            return lower_bound(self.lives)
        bound: int = max((life.size_bytes for life in self.lives), default=0)
        for step in sorted({life.first_step for life in self.lives}):
            live = {v.name: v for v in live_at(self.lives, step)}
            shared = sum(
                min(live[a.lower].size_bytes - a.distance_bytes, live[a.upper].size_bytes)
                for a in self.apart
                if a.upper in live and a.lower in live
            )
            bound = max(bound, sum(life.size_bytes for life in live.values()) - shared)
        return Bytes(bound)

    def height_bytes(self, offsets: Sequence[int]) -> Bytes:
        """Return the end of the highest life."""
        tops = (at + life.size_bytes for at, life in zip(offsets, self.lives, strict=True))
        return Bytes(max([0, *tops]))


def aligned(offset: int, align_bytes: int) -> Bytes:
    """Return the first multiple of `align_bytes` from `offset` on."""
    return Bytes(-(-offset // align_bytes) * align_bytes)


def live_at(lives: Iterable[Live], step: int) -> tuple[Live, ...]:
    """Return those that `step` needs."""
    return tuple(life for life in lives if life.first_step <= step < life.last_step)


def lower_bound(lives: Sequence[Live]) -> Bytes:
    """Return the largest sum of what one step needs, alignment padding included.

    Of lives aligned to `a`, each but the highest takes a multiple of `a`, since another aligned
    one begins above it. Lives of a smaller alignment may fill that padding, so the larger of both
    sums is the bound.
    """
    starts = sorted({life.first_step for life in lives})
    fixed = (life.offset_bytes + life.size_bytes for life in lives if life.offset_bytes is not None)
    return Bytes(max([0, *fixed, *(_sum_at(live_at(lives, step)) for step in starts)]))


def _sum_at(lives: Sequence[Live]) -> int:
    used = [life for life in lives if life.size_bytes]
    total: int = sum(life.size_bytes for life in used)
    for align in sorted({life.align_bytes for life in used}):
        sizes = [life.size_bytes for life in used if life.align_bytes % align == 0]
        padding = [aligned(size, align) - size for size in sizes]
        total = max(total, sum(sizes) + sum(padding) - max(padding))
    return total
