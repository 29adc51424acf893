"""Replay a plan with strips byte by byte: who owns each byte, and does each read find its own.

The conditions under which a layer goes are those that the C has; no formula of the planner is used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Buffer, Schedule, Step
from dlbuild.ir.tile_plan import Layer, RowRead, Strip, TilePlan

Owners = npt.NDArray[np.int64]

_TENSOR = 1 << 40
"""An owner is a tensor's number times this, plus the byte's place in the tensor."""


class _FaultError(Exception):
    """The text says what is wrong."""


def replay_rows(
    graph: Graph, profile: Profile, tiles: TilePlan, schedule: Schedule
) -> Iterator[str]:
    """Yield the first fault of a plan some of whose kernels run row by row."""
    try:
        _Replay(graph, profile, tiles, schedule).run()
    except _FaultError as fault:
        yield str(fault)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of a tensor: where they lie, and which of its bytes they are."""

    buffer: Buffer
    at: int
    first: int
    size: int


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns [first, end) of `count`."""

    first: int
    end: int
    count: int


_ALL = _Columns(0, 1, 1)
"""A row as one column."""


def _columns(strip: Strip, number: int) -> Mapping[str, _Columns]:
    """Return the columns of what each layer writes (or adds up) in a pass."""
    counts = {read.tensor: read.extent for layer in strip.layers for read in layer.across}
    found = {}
    for layer in strip.layers:
        if layer.passes:
            first, end = layer.passes[number]
            ends = max(last for _, last in layer.passes)
            found[layer.writes] = _Columns(first, end, counts.get(layer.writes, ends))
    return found


@dataclass
class _Replay:
    graph: Graph
    profile: Profile
    tiles: TilePlan
    schedule: Schedule
    memory: dict[str, Owners] = field(default_factory=dict)
    number: dict[str, int] = field(default_factory=dict)
    origin: dict[str, tuple[str, int]] = field(default_factory=dict)
    _columns: Mapping[str, _Columns] = field(default_factory=dict)

    def run(self) -> None:
        streamed = {strip.streamed for strip in self.tiles.strips}
        for name in self.graph.inputs:
            if name not in streamed:
                self._write(self._whole(name))
        done: set[int] = set()
        for step in self.schedule.steps:
            if step.strip and step.strip not in done:
                done.add(step.strip)
                self._strip(self.tiles.strips[step.strip - 1], step)
            elif not step.strip:
                self._step(step)
        for name in (*self.graph.outputs, *(s.counters for s in self.tiles.strips if s.counters)):
            self._read(self._whole(name), "the caller")

    def _step(self, step: Step) -> None:
        kernel = self.profile.kernel[step.kernel]
        where = f"step {step.number} ({step.kernel})"
        for name in kernel.reads:
            self._read(self._whole(name), where)
        for name in kernel.writes:
            if step.is_code:
                self._write(self._whole(name))
            elif kernel.alias is not None:
                source, at = self.origin.get(kernel.alias.source, (kernel.alias.source, 0))
                self.origin[name] = (source, at + kernel.alias.offset_bytes)

    def _strip(self, strip: Strip, step: Step) -> None:
        if strip.counters:
            self._write(self._whole(strip.counters))
        passes = {len(layer.passes) for layer in strip.layers}
        if len(passes) > 1:
            raise _FaultError(f"the layers of strip {step.strip} have different passes")
        for number in range(max(*passes, 1)):
            self._columns = _columns(strip, number)
            self._pass(strip, step)
        for layer in strip.layers:
            if layer.sums:
                for name in layer.sums:
                    self._read(self._whole(name), f"the end of {layer.kernel}")
                self._write(self._whole(layer.writes))

    def _pass(self, strip: Strip, step: Step) -> None:
        done = [0] * len(strip.layers)
        pushed = 0
        rings = {ring.tensor for ring in strip.rings}
        kept = [n for n, layer in enumerate(strip.layers) if layer.writes not in rings]
        while any(done[n] < strip.layers[n].rows for n in kept):
            if strip.counters:
                self._read(self._whole(strip.counters), f"strip {step.strip}")
            number = self._chosen(strip, done, pushed)
            if number is not None:
                self._turn(strip.layers[number], done[number])
                done[number] = strip.layers[number].end(done[number])
            elif strip.streamed and pushed < self._input(strip).extent:
                extent = self._input(strip).extent
                self._write(self._row(strip.streamed, pushed, extent, None))
                pushed += 1
            else:
                raise _FaultError(f"strip {step.strip} is stuck: no layer may go")

    @staticmethod
    def _input(strip: Strip) -> RowRead:
        reads = (r for layer in strip.layers for r in layer.reads if r.tensor == strip.streamed)
        return next(reads)

    @staticmethod
    def _chosen(strip: Strip, done: Sequence[int], pushed: int) -> int | None:
        """Return the last layer that has rows left, its input rows, and room for one more."""
        writer = {layer.writes: n for n, layer in enumerate(strip.layers) if not layer.sums}
        kept = {ring.tensor: ring.rows for ring in strip.rings}
        for number in range(len(strip.layers) - 1, -1, -1):
            layer, row = strip.layers[number], done[number]
            may_go = row < layer.rows
            for read in layer.reads:
                last = layer.end(row) - 1
                needed = min(read.stride * last + read.high, read.extent)
                if read.tensor == strip.streamed:
                    may_go = may_go and pushed >= needed
                elif read.tensor in writer:
                    may_go = may_go and done[writer[read.tensor]] >= needed
            for other, reader in enumerate(strip.layers):
                for read in reader.reads:
                    if reader.kernel in layer.room and read.tensor == layer.writes:
                        oldest = read.stride * done[other] + read.low
                        may_go = may_go and row + layer.step <= oldest + kept[layer.writes]
            if may_go:
                return number
        return None

    def _turn(self, layer: Layer, row: int) -> None:
        where = f"row {row} of {layer.kernel}"
        end = layer.end(row)
        read = [
            self._row(r.tensor, number, r.extent, self._read_columns(layer, r.tensor))
            for r in layer.reads
            for number in range(
                max(r.stride * row + r.low, 0), min(r.stride * (end - 1) + r.high, r.extent)
            )
        ]
        for piece in read:
            self._read(piece, where)
        for name in layer.sums:
            if row > 0 or self._columns.get(layer.writes, _ALL).first > 0:
                self._read(self._whole(name), where)
            self._write(self._whole(name))
        if not layer.sums:
            written = [
                self._row(layer.writes, number, layer.rows, self._columns.get(layer.writes))
                for number in range(row, end)
            ]
            # Rows that are computed at a time lie one behind the other.
            if any(b.at != a.at + a.size for a, b in pairwise(written)):
                raise _FaultError(f"{where} and those after it do not lie side by side")
            for piece in read:
                if any(_touches(piece, one) for one in written):
                    raise _FaultError(
                        f"{where} is written over {piece.buffer.tensor}, which it reads"
                    )
            for one in written:
                self._write(one)

    def _whole(self, name: str) -> _Piece:
        buffer = self.schedule.buffer[name]
        if buffer.rows:
            raise _FaultError(f"{name} is used as a whole, but only a few rows of it are kept")
        return _Piece(buffer, buffer.offset_bytes, 0, buffer.size_bytes)

    def _read_columns(self, layer: Layer, tensor: str) -> "_Columns | None":
        """Return the columns that a layer reads of a tensor in this pass."""
        mine = self._columns.get(layer.writes)
        if mine is None:
            return None
        across = next(read for read in layer.across if read.tensor == tensor)
        first, end = across.first(mine.first), across.end(mine.end - 1)
        there = self._columns.get(tensor)
        if there and not (there.first <= first and end <= there.end):
            raise _FaultError(f"{layer.kernel} reads columns of {tensor} that the pass has not")
        return _Columns(first, end, across.extent)

    def _row(self, name: str, row: int, extent: int, columns: "_Columns | None") -> _Piece:
        """Return a row, or some columns of it."""
        buffer = self.schedule.buffer[name]
        whole = self.graph.tensor[name].size_bytes // extent
        pitch = buffer.size_bytes // buffer.rows if buffer.rows else whole
        part = columns or _ALL
        column = whole // (part.count or 1)
        origin = self._columns.get(name, _ALL).first if pitch < whole else 0
        size = (part.end - part.first) * column
        place = (row % buffer.rows if buffer.rows else row) * pitch
        start = (part.first - origin) * column
        if not (0 <= place <= buffer.size_bytes - pitch and 0 <= start <= pitch - size):
            raise _FaultError(f"row {row} of {name} is outside its buffer")
        first = row * whole + part.first * column
        return _Piece(buffer, buffer.offset_bytes + place + start, first, size)

    def _owners(self, piece: _Piece) -> tuple[Owners, Owners]:
        """Return the owners that a piece should have, and the memory where it lies."""
        region = _region(piece.buffer)
        end = piece.at + piece.size
        memory = self.memory.get(region, np.full(0, -1, np.int64))
        if len(memory) < end:
            memory = np.concatenate([memory, np.full(end - len(memory), -1, np.int64)])
            self.memory[region] = memory
        name, at = self.origin.get(piece.buffer.tensor, (piece.buffer.tensor, 0))
        number = self.number.setdefault(name, len(self.number))
        first = number * _TENSOR + at + piece.first
        return np.arange(first, first + piece.size, dtype=np.int64), memory[piece.at : end]

    def _read(self, piece: _Piece, where: str) -> None:
        wanted, found = self._owners(piece)
        if not np.array_equal(wanted, found):
            name = piece.buffer.tensor
            raise _FaultError(f"{where} reads {name}, whose bytes hold something else")

    def _write(self, piece: _Piece) -> None:
        wanted, found = self._owners(piece)
        found[:] = wanted


def _region(buffer: Buffer) -> str:
    root = buffer.alias_of or buffer.tensor
    return f"caller's {root}" if buffer.memory == "caller" else buffer.memory


def _touches(one: _Piece, other: _Piece) -> bool:
    is_near = one.at < other.at + other.size and other.at < one.at + one.size
    return is_near and _region(one.buffer) == _region(other.buffer)
