"""What computing consecutive kernels together, row by row, would take of the arena."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Kernel
from dlbuild.ir.tile_plan import Layer, Overlap, Ring, RowRead, Strip, Sums, bytes_of
from dlbuild.rulebook.rows import Columns, Rows
from dlbuild.stages.forms import POINTS, forms_for
from dlbuild.stages.lives import Lives
from dlbuild.stages.passes import cuttings
from dlbuild.stages.pump import INPUT, Pump, Span, StuckError, Turn, distance

MOST_ROWS_OF_INT16 = 32767
LEAST_LAYERS = 2
"""A layer alone keeps no ring that passes could make smaller."""

COUNTERS = "rows done"
"""The name of the working memory of the strip that reads a streamed input."""


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels [first, last] of the profile as one step of the schedule.

    need_bytes: what the arena holds meanwhile, alignment not counted. strip: None for a kernel
    that runs alone and as a whole. again_macs: multiplications that are done more than once.
    forms: of hand-written kernels, that of each layer, nothing for the usual ones.
    slow_macs: what they take longer than the usual ones, in multiplications.
    """

    first: int
    last: int
    need_bytes: int
    strip: Strip | None = None
    again_macs: int = 0
    forms: tuple[int, ...] = ()
    slow_macs: int = 0


@dataclass(frozen=True)
class Groups(Lives):
    """The groups that a profile's kernels could form.

    rows: how the kernels that can be computed row by row are.
    points: so many rows of one point that share weights are computed at a time.
    """

    rows: Mapping[str, Rows]
    points: int = POINTS

    @property
    def fetched(self) -> str:
        """The input whose rows are asked for when they are needed, or the empty name."""
        return self.graph.inputs[0] if self.options.input == "external" else ""

    @cached_property
    def views(self) -> tuple[str, ...]:
        """The first kernels, as far as they do nothing but see the streamed input as it lies."""
        found: list[str] = []
        for kernel in self.profile.kernels if self.streamed else ():
            (written, *more) = kernel.writes
            is_all = self.whole(written) == self.whole(self.streamed)
            if kernel.alias is None or more or not is_all or self.root[written] != self.streamed:
                break
            found.append(kernel.name)
        return tuple(found)

    def alone(self, number: int) -> Group | None:
        """Return the group of one kernel that runs as a whole; None if its input is never whole."""
        kernel = self.profile.kernels[number]
        roots = [self.root.get(name) for name in kernel.reads]
        if self.streamed and self.streamed in roots:
            return None
        if self.fetched and self.fetched in roots and not self._is_another_name(kernel):
            return None
        need = self.kept_bytes(number, number) + _scratch_bytes(kernel)
        if kernel.alias is None:
            need -= max(
                (
                    self.lives[self.root[read]].size_bytes
                    for read, written in kernel.in_place
                    if self.lives[self.root[read]].dies == number
                    and self.bytes_of(read) == self.bytes_of(written)
                ),
                default=0,
            )
        return Group(number, number, need)

    def _is_another_name(self, kernel: Kernel) -> bool:
        """Say whether a kernel of the fetched input needs no code: its rows are the input's.

        What the caller takes is no view of what lies nowhere, nor do rows of a part begin at 0.
        """
        is_whole = all(self.whole(name) == self.whole(self.fetched) for name in kernel.writes)
        is_taken = not set(kernel.writes).isdisjoint(self.graph.outputs)
        return kernel.alias is not None and is_whole and not is_taken

    def floor(self, first: int, last: int) -> int:
        """Return what no strip of these kernels can be below, cheaply."""
        # In passes, a ring may be as narrow as a column.
        is_whole = self.options.max_recompute <= 1
        inner = self.inner(first, last) if is_whole else ()
        ring = sum(self._least_ring(name) for name in inner)
        ending = self._read_last(first, last)
        written = self.written(first, last)
        shared = max((min(self.kept(u), self.kept(w)) for u in ending for w in written), default=0)
        # Of the streamed input no more than a ring is there.
        streamed = self.kept(self.streamed) if self.streamed and first == 0 else 0
        return self.kept_bytes(first, last) + ring - shared - streamed

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
        ends = {self.rows[kernels[-1].name].writes, *self.written(first, last)}
        return all(name in read or name in ends for name in produced)

    def strip(self, first: int, last: int) -> Group | None:
        """Return the group of kernels computed together, None if they cannot be."""
        if not self.is_possible(first, last):
            return None
        kernels = self._computed(first, last)
        layers = [self._layer(kernel.name) for kernel in kernels]
        written = self.written(first, last)
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
            Ring(name, min(rows, extent), extent, self.whole(name) // extent)
            for name, rows in rings.items()
            for extent in [self._extent(name, layers)]
        )
        overlaps = self._overlaps(pump, turns, first, last)
        strip = Strip(tuple(layers), kept_rings, overlaps, streamed)
        need = self.kept_bytes(first, last) + sum(r.rows * r.row_bytes for r in kept_rings)
        need += _bytes_of(self.sums(kernels[-1].name))
        if is_streamed:
            strip = replace(strip, views=self.views, counters=COUNTERS)
            need -= self.lives[streamed].size_bytes
        return Group(first, last, need - self._saved(overlaps), strip)

    def strips(self, first: int, last: int) -> tuple[Group, ...]:
        """Return the group of kernels computed together, in one pass and in several.

        Several make the rings smaller, and what they compute twice is counted. Each in the usual
        forms of its hand-written kernels, then in slower ones that need less working memory.
        """
        whole = self.strip(first, last)
        if whole is None or whole.strip is None:
            return ()
        found = [whole]
        if self.options.max_recompute > 1 and self._is_cut(whole.strip):
            found += self._cut(whole, whole.strip)
        return tuple(
            replace(
                group,
                need_bytes=group.need_bytes + taken.size_bytes,
                forms=taken.forms,
                slow_macs=taken.slow_macs,
            )
            for group in found
            if group.strip
            for taken in forms_for(group.strip, self.profile)
        )

    def _cut(self, whole: Group, strip: Strip) -> Iterator[Group]:
        """Yield the group in several passes."""
        if any(layer.step > 1 for layer in strip.layers):
            single = replace(self, points=1).strip(whole.first, whole.last)
            if single is None or single.strip is None:
                return
            strip = single.strip
        kernels = [self.profile.kernel[layer.kernel] for layer in strip.layers]
        columns = {k.name: self._columns(k.name).count for k in kernels}
        macs = {k.name: k.macs for k in kernels}
        layers = [
            replace(y, across=along.reads, columns=along.axis)
            for y in strip.layers
            for along in [self._columns(y.kernel)]
        ]
        kept = self.kept_bytes(whole.first, whole.last)
        for cutting in cuttings(layers, strip.rings, columns, macs):
            cut = Strip(cutting.layers, cutting.rings)
            need = kept + sum(ring.rows * ring.row_bytes for ring in cut.rings)
            need += _bytes_of(self.sums(kernels[-1].name))
            again = max(cutting.macs - sum(macs.values()), 0)
            yield Group(whole.first, whole.last, need, cut, again)

    def _is_cut(self, strip: Strip) -> bool:
        """Say whether a strip can run in several passes: only its last layer's output stays."""
        rings = {ring.tensor for ring in strip.rings}
        columns = {y.writes: c for y in strip.layers if (c := self.rows[y.kernel].columns)}
        if len(columns) < len(strip.layers) or len(columns) < LEAST_LAYERS or strip.streamed:
            return False
        if rings != {layer.writes for layer in strip.layers[:-1]}:
            return False
        # Passes add up in another order, which rounds floats differently.
        sums = self.sums(strip.layers[-1].kernel)
        if any(DTYPES[found.dtype].kind == "float" for found in sums):
            return False
        reads = [read for found in columns.values() for read in found.reads]
        return all(r.extent == columns[r.tensor].count for r in reads if r.tensor in columns)

    def _columns(self, kernel: str) -> Columns:
        columns = self.rows[kernel].columns
        assert columns is not None, "only what can be cut is cut"
        return columns

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
        is_brought = any(read.tensor == self.fetched for read in reads)
        step = min(self.points, rows.count) if rows.points == 1 and not is_brought else 1
        return Layer(kernel, rows.axis, rows.count, reads, rows.writes, names, step=step)

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
            above = Span(rows, self.whole(upper) // rows)
            for lower in self.written(first, last):
                number = pump.producer.get(lower)
                if number is None or not self._may_share(upper, lower):
                    continue
                below = Span(
                    pump.layers[number].rows, self.whole(lower) // pump.layers[number].rows
                )
                apart = distance(pump, turns, (upper, above), (number, below))
                if apart < self.whole(lower):
                    found.append(Overlap(upper, lower, apart))
        return tuple(found)

    def _saved(self, overlaps: Sequence[Overlap]) -> int:
        return max(
            (
                upper + lower - max(overlap.distance_bytes + upper, lower)
                for overlap in overlaps
                for upper in [self.kept(overlap.upper)]
                for lower in [self.kept(overlap.lower)]
            ),
            default=0,
        )

    def _may_share(self, upper: str, lower: str) -> bool:
        """Say whether both lie in the arena, as element types that C lets share an array."""
        types = {self.graph.tensor[upper].dtype, self.graph.tensor[lower].dtype}
        is_bytes = types <= {"int8", "uint8"}
        both = self.kept(upper) and self.kept(lower)
        return bool(both) and (len(types) == 1 or is_bytes)

    def _read_last(self, first: int, last: int) -> list[str]:
        """Return what is there before and is read here for the last time, under its name here."""
        read = dict.fromkeys(r.tensor for r in self._reads(first, last))
        return [
            name
            for name in read
            if (life := self.lives[self.root[name]]).born < first <= life.dies <= last
            and self.whole(name) == self.whole(self.root[name])
        ]

    def _reads(self, first: int, last: int) -> list[RowRead]:
        kernels = self.profile.kernels[first : last + 1]
        return [r for k in kernels if k.name in self.rows for r in self.rows[k.name].reads]

    def _least_ring(self, tensor: str) -> int:
        life = self.lives[tensor]
        reads = [r for r in self._reads(life.dies, life.dies) if r.tensor == tensor]
        rows = max((min(r.high - r.low, r.extent) for r in reads), default=1)
        extent = max((r.extent for r in reads), default=1)
        return rows * (self.whole(tensor) // extent)


def _bytes_of(sums: Sequence[Sums]) -> int:
    return sum(map(bytes_of, sums))


def _scratch_bytes(kernel: Kernel) -> int:
    return sum(map(bytes_of, kernel.handwriting.scratch)) if kernel.handwriting else 0


def _count(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _step(pump: Pump, tensor: str) -> int:
    """Return how many rows of a tensor are written at a time, and read where each is read once."""
    writer = pump.producer[tensor]
    steps = [pump.layers[n].step for n, read in pump.readers[tensor] if read.stride == 1]
    return lcm(pump.layers[writer].step if writer != INPUT else 1, *steps)


def _settled(pump: Pump, kept: frozenset[int]) -> tuple[list[Turn], dict[str, int], list[set[int]]]:
    """Return the pump's order, its rings, and for each layer the readers it waits for."""
    whole = {pump.layers[number].writes for number in kept}

    def rings(turns: Sequence[Turn]) -> dict[str, int]:
        # Rows that are computed at a time lie side by side.
        steps = {t: _step(pump, t) for t in pump.producer}
        return {
            t: -(-rows // steps[t]) * steps[t]
            for t, rows in pump.windows(turns).items()
            if t not in whole
        }

    first = rings(pump.demanded())
    turns, _ = pump.run(first)
    found = rings(turns)
    turns, waited = pump.run(found)
    assert INPUT < 0
    return turns, found, waited
