"""The order in which a strip computes rows, the rows it must keep, and how its ends may overlap.

A layer may compute its next row when its input rows are there (it is ready) and its output's ring
has a place for it (it has room). Of those that may, the one nearest to the output goes. Enabled
layers stay enabled, so if the rings suffice for one order, no order blocks or overruns them: the
rings are first those of the demand order, then what the pump itself was seen to need.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlbuild.ir.tile_plan import Layer, RowRead

INPUT = -1
"""The number of the pseudo-layer that brings a row of the streamed input."""


class StuckError(Exception):
    """No layer may compute, and no input row is left."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Rows [row, end) of one layer (its number in the strip), or one of the streamed input."""

    layer: int
    row: int
    end: int


@dataclass
class Pump:
    """A strip's layers as row counters.

    kept: layers whose tensor is needed as a whole after the strip; they finish their rows.
    streamed: the input that comes in rows, or the empty name.
    """

    layers: Sequence[Layer]
    kept: frozenset[int]
    streamed: str = ""
    streamed_rows: int = 0
    producer: dict[str, int] = field(init=False)
    readers: dict[str, list[tuple[int, RowRead]]] = field(init=False)

    def __post_init__(self) -> None:
        """Find who writes and who reads each tensor."""
        self.producer = {layer.writes: n for n, layer in enumerate(self.layers) if not layer.sums}
        if self.streamed:
            self.producer[self.streamed] = INPUT
        self.readers = {tensor: [] for tensor in self.producer}
        for number, layer in enumerate(self.layers):
            for read in layer.reads:
                if read.tensor in self.readers:
                    self.readers[read.tensor].append((number, read))

    def demanded(self) -> list[Turn]:
        """Return the order in which each row is computed when it is first asked for."""
        turns: list[Turn] = []
        done = [0] * len(self.layers)
        pushed = 0

        def compute(number: int) -> None:
            nonlocal pushed
            layer = self.layers[number]
            for read in layer.reads:
                source = self.producer.get(read.tensor)
                end = read.end(layer.end(done[number]) - 1)
                if source == INPUT:
                    turns.extend(Turn(INPUT, row, row + 1) for row in range(pushed, end))
                    pushed = max(pushed, end)
                elif source is not None:
                    while done[source] < end:
                        compute(source)
            turns.append(Turn(number, done[number], layer.end(done[number])))
            done[number] = turns[-1].end

        for number in sorted(self.kept, reverse=True):
            while done[number] < self.layers[number].rows:
                compute(number)
        return turns

    def run(self, rings: Mapping[str, int]) -> tuple[list[Turn], list[set[int]]]:
        """Return the pump's order, and for each layer the readers that it had to wait for.

        Args:
            rings: the rows kept of each tensor; one that is not mentioned is there as a whole.

        Raises:
            StuckError: the rings are too small.
        """
        state = _State(self, rings)
        turns: list[Turn] = []
        while not state.is_finished():
            number = state.chosen()
            if number == INPUT:
                if state.pushed >= self.streamed_rows:
                    raise StuckError
                turns.append(Turn(INPUT, state.pushed, state.pushed + 1))
                state.pushed += 1
            else:
                row = state.done[number]
                turns.append(Turn(number, row, self.layers[number].end(row)))
                state.done[number] = turns[-1].end
        return turns, state.waited

    def windows(self, turns: Sequence[Turn]) -> dict[str, int]:
        """Return the most rows of each tensor that an order keeps at once."""
        done = [0] * len(self.layers)
        found = dict.fromkeys(self.producer, 1)
        written = {number: tensor for tensor, number in self.producer.items()}
        for turn in turns:
            if turn.layer != INPUT:
                done[turn.layer] = turn.end
            tensor = written.get(turn.layer)
            if tensor is None:
                continue
            oldest = min(
                (
                    read.first(done[reader])
                    for reader, read in self.readers[tensor]
                    if done[reader] < self.layers[reader].rows
                ),
                default=turn.row,
            )
            found[tensor] = max(found[tensor], turn.end - oldest)
        return found


class _State:
    """How far a pump is."""

    def __init__(self, pump: Pump, rings: Mapping[str, int]) -> None:
        self.pump = pump
        self.rings = rings
        self.done = [0] * len(pump.layers)
        self.pushed = 0
        self.waited: list[set[int]] = [set() for _ in pump.layers]

    def is_finished(self) -> bool:
        return all(self.done[n] >= self.pump.layers[n].rows for n in self.pump.kept)

    def chosen(self) -> int:
        """Return the layer that goes next, INPUT if none can without another row of it."""
        for number in reversed(range(len(self.done))):
            if self._is_ready(number) and self._has_room(number):
                return number
        if not self.pump.streamed:
            raise StuckError
        return INPUT

    def _is_ready(self, number: int) -> bool:
        layer, row = self.pump.layers[number], self.done[number]
        if row >= layer.rows:
            return False
        for read in layer.reads:
            source = self.pump.producer.get(read.tensor)
            if source is None:
                continue
            there = self.pushed if source == INPUT else self.done[source]
            if there < read.end(layer.end(row) - 1):
                return False
        return True

    def _has_room(self, number: int) -> bool:
        layer, row = self.pump.layers[number], self.done[number]
        ring = self.rings.get(layer.writes, layer.rows)
        if layer.sums or ring >= layer.rows:
            return True
        has_room = True
        for reader, read in self.pump.readers[layer.writes]:
            if row + layer.step > read.stride * self.done[reader] + read.low + ring:
                self.waited[number].add(reader)
                has_room = False
        return has_room


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes of a tensor as rows."""

    rows: int
    row_bytes: int


def distance(
    pump: Pump, turns: Sequence[Turn], upper: tuple[str, Span], lower: tuple[int, Span]
) -> int:
    """Return how far above a tensor that is written another, which is read, has to begin.

    No row of the lower may touch a byte of the upper that is read in its turn or later.

    Args:
        pump: the strip.
        turns: its order.
        upper: the tensor that is read.
        lower: the layer that writes the other.
    """
    tensor, above = upper
    number, below = lower
    reads = [
        (n, read)
        for n, layer in enumerate(pump.layers)
        for read in layer.reads
        if read.tensor == tensor
    ]
    by_layer: dict[int, RowRead] = dict(reads)
    oldest = above.rows
    most = 0
    for turn in reversed(turns):
        read = by_layer.get(turn.layer)
        if read is not None:
            oldest = min(oldest, read.first(turn.row))
        if turn.layer == number:
            most = max(most, turn.end * below.row_bytes - oldest * above.row_bytes)
    return most
