"""What computing consecutive kernels together, row by row, would take of the arena."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.plans import Kernel, Layer, Overlap, Profile, Ring, RowRead, Strip, Sums
from dlbuild.ir.target import Options
from dlbuild.rulebook.rows import Rows
from dlbuild.stages.peak import arena_bytes
from dlbuild.stages.pump import INPUT, Pump, Span, StuckError, Turn, distance

MOST_ROWS_OF_INT16 = 32767
COUNTERS = "rows done"
"""The name of the working memory of the strip that reads a streamed input."""


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels [first, last] of the profile as one step of the schedule.

    need_bytes: what the arena holds meanwhile, alignment not counted. strip: None for a kernel
    that runs alone and as a whole.
    """

    first: int
    last: int
    need_bytes: int
    strip: Strip | None = None


@dataclass(frozen=True, slots=True)
class _Life:
    """A tensor and its views: written by kernel `born` (-1: an input), last read by `dies`."""

    size_bytes: int
    born: int
    dies: int


@dataclass(frozen=True)
class Groups:
    """The groups that a profile's kernels could form.

    rows: how the kernels that can be computed row by row are.
    """

    graph: Graph
    profile: Profile
    options: Options
    rows: Mapping[str, Rows]

    @cached_property
    def root(self) -> Mapping[str, str]:
        """For each activation the tensor whose bytes it is."""
        found = {name: name for name in self.graph.inputs}
        for kernel in self.profile.kernels:
            for name in kernel.writes:
                found[name] = found[kernel.alias.source] if kernel.alias else name
        return found

    @cached_property
    def lives(self) -> Mapping[str, _Life]:
        """The life of each tensor that is no view."""
        found: dict[str, _Life] = {}
        for name in self.graph.inputs:
            found[name] = _Life(self._bytes(name), -1, 0)
        for number, kernel in enumerate(self.profile.kernels):
            for name in kernel.writes:
                if self.root[name] == name:
                    found[name] = _Life(self._bytes(name), number, number)
            for name in kernel.reads:
                if name in self.root:
                    root = self.root[name]
                    found[root] = replace(found[root], dies=number)
        for name in self.graph.outputs:
            if name in self.root:
                root = self.root[name]
                found[root] = replace(found[root], dies=len(self.profile.kernels))
        return found

    @property
    def streamed(self) -> str:
        """The input that comes in rows, or the empty name."""
        return self.graph.inputs[0] if self.options.input == "streamed" else ""

    @cached_property
    def views(self) -> tuple[str, ...]:
        """The first kernels, as far as they do nothing but see the streamed input as it lies."""
        found: list[str] = []
        for kernel in self.profile.kernels if self.streamed else ():
            (written, *more) = kernel.writes
            is_all = self._whole(written) == self._whole(self.streamed)
            if kernel.alias is None or more or not is_all or self.root[written] != self.streamed:
                break
            found.append(kernel.name)
        return tuple(found)

    def alone(self, number: int) -> Group | None:
        """Return the group of one kernel that runs as a whole; None if its input is streamed."""
        kernel = self.profile.kernels[number]
        if self.streamed and self.streamed in (self.root.get(name) for name in kernel.reads):
            return None
        need = self._kept_bytes(number, number)
        if kernel.alias is None:
            need -= max(
                (
                    self.lives[self.root[read]].size_bytes
                    for read, written in kernel.in_place
                    if self.lives[self.root[read]].dies == number
                    and self._bytes(read) == self._bytes(written)
                ),
                default=0,
            )
        return Group(number, number, need)

    def floor(self, first: int, last: int) -> int:
        """Return what no strip of these kernels can be below, cheaply."""
        ring = sum(self._least_ring(name) for name in self._inner(first, last))
        ending = self._read_last(first, last)
        written = self._written(first, last)
        shared = max(
            (min(self._kept(u), self._kept(w)) for u in ending for w in written), default=0
        )
        # Of the streamed input no more than a ring is there.
        streamed = self._kept(self.streamed) if self.streamed and first == 0 else 0
        return self._kept_bytes(first, last) + ring - shared - streamed

    def is_possible(self, first: int, last: int) -> bool:
        """Say whether these kernels could be computed row by row."""
        if last < len(self.views):
            return False
        kernels = self._computed(first, last)
        start = last + 1 - len(kernels)
        for number, kernel in enumerate(kernels, start=start):
            rows = self.rows.get(kernel.name)
            if rows is None or kernel.alias or (rows.parts and number != last):
                return False
        streamed = self.lives.get(self.streamed)
        if streamed and first == 0 and streamed.dies > last:
            return False
        produced = {self.rows[k.name].writes: self.rows[k.name].count for k in kernels}
        read = {r.tensor for k in kernels for r in self.rows[k.name].reads}
        if any(r.extent != produced.get(r.tensor, r.extent) for r in self._reads(first, last)):
            return False
        ends = {self.rows[kernels[-1].name].writes, *self._written(first, last)}
        return all(name in read or name in ends for name in produced)

    def strip(self, first: int, last: int) -> Group | None:
        """Return the group of kernels computed together, None if they cannot be."""
        if not self.is_possible(first, last):
            return None
        kernels = self._computed(first, last)
        layers = [self._layer(kernel.name) for kernel in kernels]
        written = self._written(first, last)
        kept = frozenset(n for n, layer in enumerate(layers) if layer.writes in written)
        kept |= {len(layers) - 1}
        is_streamed = bool(self.streamed) and first == 0
        streamed = self.streamed if is_streamed else ""
        pump = Pump(layers, kept, streamed, self._input_rows(layers, streamed))
        try:
            turns, rings, waited = _settled(pump, kept)
        except StuckError:
            return None
        layers = [
            replace(layer, room=tuple(layers[reader].kernel for reader in sorted(waited[number])))
            for number, layer in enumerate(layers)
        ]
        kept_rings = tuple(
            Ring(name, min(rows, extent), extent, self._whole(name) // extent)
            for name, rows in rings.items()
            for extent in [self._extent(name, layers)]
        )
        overlaps = self._overlaps(pump, turns, first, last)
        strip = Strip(tuple(layers), kept_rings, overlaps, streamed)
        need = self._kept_bytes(first, last) + sum(r.rows * r.row_bytes for r in kept_rings)
        need += sum(s.count * DTYPES[s.dtype].bits // 8 for s in self.sums(kernels[-1].name))
        if is_streamed:
            strip = replace(strip, views=self.views, counters=COUNTERS)
            need -= self.lives[streamed].size_bytes
        return Group(first, last, need - self._saved(overlaps), strip)

    def sums(self, kernel: str) -> Sequence[Sums]:
        """Return the partial results that a kernel keeps when it is computed row by row."""
        parts = self.rows[kernel].parts
        if parts is None:
            return ()
        return tuple(
            Sums(f"{kernel} {operand.name}", operand.dtype, _count(operand.shape))
            for operand in parts.sums
        )

    def working(self, strip: Strip) -> Iterator[Sums]:
        """Yield the working memory of a strip."""
        for layer in strip.layers:
            if layer.sums:
                yield from self.sums(layer.kernel)
        if strip.counters:
            rows = [layer.rows for layer in strip.layers]
            rows += [read.extent for layer in strip.layers for read in layer.reads]
            dtype = "int16" if max(rows) <= MOST_ROWS_OF_INT16 else "int32"
            yield Sums(strip.counters, dtype, len(strip.layers) + 1)

    def _computed(self, first: int, last: int) -> Sequence[Kernel]:
        """Return the kernels of a strip that are layers."""
        kernels = self.profile.kernels[first : last + 1]
        return [k for k in kernels if first or k.name not in self.views]

    def _layer(self, kernel: str) -> Layer:
        rows = self.rows[kernel]
        names = tuple(s.name for s in self.sums(kernel))
        reads = tuple(
            replace(r, tensor=self.streamed) if self._is_streamed(r.tensor) else r
            for r in rows.reads
        )
        return Layer(kernel, rows.axis, rows.count, reads, rows.writes, names)

    def _is_streamed(self, tensor: str) -> bool:
        return bool(self.streamed) and self.root.get(tensor) == self.streamed

    def _input_rows(self, layers: Sequence[Layer], streamed: str) -> int:
        return self._extent(streamed, layers) if streamed else 0

    def _extent(self, tensor: str, layers: Sequence[Layer]) -> int:
        for layer in layers:
            for read in layer.reads:
                if read.tensor == tensor:
                    return read.extent
        return next(layer.rows for layer in layers if layer.writes == tensor)

    def _overlaps(
        self, pump: Pump, turns: Sequence[Turn], first: int, last: int
    ) -> tuple[Overlap, ...]:
        found = []
        for upper in self._read_last(first, last):
            if self._is_streamed(upper):
                continue
            rows = self._extent(upper, pump.layers)
            above = Span(rows, self._whole(upper) // rows)
            for lower in self._written(first, last):
                number = pump.producer.get(lower)
                if number is None or not self._may_share(upper, lower):
                    continue
                below = Span(
                    pump.layers[number].rows, self._whole(lower) // pump.layers[number].rows
                )
                apart = distance(pump, turns, (upper, above), (number, below))
                if apart < self._whole(lower):
                    found.append(Overlap(upper, lower, apart))
        return tuple(found)

    def _saved(self, overlaps: Sequence[Overlap]) -> int:
        return max(
            (
                upper + lower - max(overlap.distance_bytes + upper, lower)
                for overlap in overlaps
                for upper in [self._kept(overlap.upper)]
                for lower in [self._kept(overlap.lower)]
            ),
            default=0,
        )

    def _may_share(self, upper: str, lower: str) -> bool:
        """Say whether both lie in the arena, as element types that C lets share an array."""
        types = {self.graph.tensor[upper].dtype, self.graph.tensor[lower].dtype}
        is_bytes = types <= {"int8", "uint8"}
        both = self._kept(upper) and self._kept(lower)
        return bool(both) and (len(types) == 1 or is_bytes)

    def _kept_bytes(self, first: int, last: int) -> int:
        """Return the bytes of all that is there as a whole during these kernels."""
        return sum(
            life.size_bytes
            for life in self.lives.values()
            if (life.born < first <= life.dies) or (first <= life.born <= last < life.dies)
        ) + sum(
            life.size_bytes
            for life in self.lives.values()
            if first <= life.born == life.dies <= last  # nobody reads it
        )

    def _inner(self, first: int, last: int) -> list[str]:
        return [name for name, life in self.lives.items() if first <= life.born < life.dies <= last]

    def _read_last(self, first: int, last: int) -> list[str]:
        """Return what is there before and is read here for the last time, under its name here."""
        read = dict.fromkeys(r.tensor for r in self._reads(first, last))
        return [
            name
            for name in read
            if (life := self.lives[self.root[name]]).born < first <= life.dies <= last
            and self._whole(name) == self._whole(self.root[name])
        ]

    def _written(self, first: int, last: int) -> list[str]:
        """Return what is made here and needed afterwards."""
        return [name for name, life in self.lives.items() if first <= life.born <= last < life.dies]

    def _reads(self, first: int, last: int) -> list[RowRead]:
        kernels = self.profile.kernels[first : last + 1]
        return [r for k in kernels if k.name in self.rows for r in self.rows[k.name].reads]

    def _least_ring(self, tensor: str) -> int:
        life = self.lives[tensor]
        reads = [r for r in self._reads(life.dies, life.dies) if r.tensor == tensor]
        rows = max((min(r.high - r.low, r.extent) for r in reads), default=1)
        extent = max((r.extent for r in reads), default=1)
        return rows * (self._whole(tensor) // extent)

    def _kept(self, tensor: str) -> int:
        return self.lives[self.root[tensor]].size_bytes

    def _bytes(self, tensor: str) -> int:
        is_streamed = tensor == self.streamed
        return self._whole(tensor) if is_streamed else arena_bytes(tensor, self.graph, self.options)

    def _whole(self, tensor: str) -> int:
        return self.graph.tensor[tensor].size_bytes


def _count(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _settled(pump: Pump, kept: frozenset[int]) -> tuple[list[Turn], dict[str, int], list[set[int]]]:
    """Return the pump's order, its rings, and for each layer the readers it waits for."""
    whole = {pump.layers[number].writes for number in kept}

    def rings(turns: Sequence[Turn]) -> dict[str, int]:
        return {t: rows for t, rows in pump.windows(turns).items() if t not in whole}

    first = rings(pump.demanded())
    turns, _ = pump.run(first)
    found = rings(turns)
    turns, waited = pump.run(found)
    assert INPUT < 0
    return turns, found, waited
