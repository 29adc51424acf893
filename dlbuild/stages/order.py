"""The topological order of least peak: exact by dynamic programming, a beam beyond that.

What a kernel needs while it runs depends only on the set of those that ran before it, so the
least peak of each such set follows from those that are one kernel smaller. Three facts keep the
sets few:

- cells: all that a kernel depends on runs before it, so one on which all the others depend, or
  which depends on them, is met by every order after the same set. What lies between two of those
  is a cell, ordered on its own;
- only sets reached below the peak to beat are kept;
- a kernel that leaves no more bytes alive than before and needs no more than the peak so far is
  best run at once: later it would free no less, and until then it only keeps bytes alive.

The idea of the sets is that of SERENITY and of Liberis and Lane (research/tiling.md, section 2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbuild.ir.graph import Graph
from dlbuild.ir.target import Options
from dlbuild.stages.peak import Part, arena_bytes

TRIES = 5_000
"""Steps tried on a cell before sets are dropped: the result is exact if it needs no more."""

NARROW = 4
"""How many sets of one size are kept from then on."""

ROUNDS = 1
"""How often the cell of the peak is ordered again."""


def least_peak_order(graph: Graph, parts: Sequence[Part], options: Options) -> tuple[int, ...]:
    """Return the positions of `parts` in an order of execution with the least peak.

    The peak is what `peak_bytes` counts. `parts` are in an order of execution; it is kept in each
    cell that does not hold the peak, and altogether if no other order has a lower one.
    """
    net = _net(graph, parts, options)
    cells = net.cells()
    peaks = [net.peak(cell) for cell in cells]
    first = max(peaks, default=0)
    for _ in range(len(cells) + ROUNDS if cells else 0):
        limit = max(peaks)
        worst = peaks.index(limit)
        floor = max((peak for peak in peaks if peak < limit), default=0)
        found = net.lowered(cells[worst], floor, limit)
        if found is None:
            break
        cells[worst] = found
        peaks[worst] = net.peak(found)
    if max(peaks, default=0) == first:
        return tuple(range(len(parts)))
    return tuple(number for cell in cells for number in cell.steps)


@dataclass(frozen=True)
class _Cell:
    """Steps in some order of execution, and the set of those that run before all of them."""

    before: int
    steps: tuple[int, ...]

    @cached_property
    def mask(self) -> int:
        """The steps as a set."""
        return sum(1 << number for number in self.steps)


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A tensor with its views. readers: the set of the steps that read one of them."""

    size_bytes: int
    readers: int
    is_output: bool

    def is_live(self, done: int) -> bool:
        """Say whether, once written, it is needed after the steps of `done`."""
        return self.is_output or bool(self.readers & ~done)


@dataclass(frozen=True, slots=True)
class _Step:
    """What one part depends on and does.

    needs: the set of the steps that write what it reads.
    reads, writes: the bytes it reads, and those that begin to live with it.
    in_place: those it may overwrite, each with the bytes that it writes there.
    """

    needs: int
    reads: tuple[_Bytes, ...]
    writes: tuple[_Bytes, ...]
    in_place: tuple[tuple[_Bytes, tuple[_Bytes, ...]], ...]

    def added_bytes(self, done: int) -> int:
        """Return how many more bytes are alive after it than before it; `done` has it."""
        begun = sum(written.size_bytes for written in self.writes if written.is_live(0))
        return begun - sum(read.size_bytes for read in self.reads if not read.is_live(done))

    def extra_bytes(self, done: int) -> int:
        """Return the bytes that it needs beyond those alive before it; `done` has it."""
        overwritten = sum(
            written.size_bytes
            for written, sources in self.in_place
            if not all(source.is_live(done) for source in sources)
        )
        return sum(written.size_bytes for written in self.writes) - overwritten


@dataclass(frozen=True, slots=True)
class _State:
    """How a set of steps was reached: its peak, the bytes alive after it, and its last step."""

    peak: int
    live: int
    step: int = -1
    parent: "_State | None" = None

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps in order."""
        steps: list[int] = []
        state: _State | None = self
        while state is not None and state.parent is not None:
            steps.append(state.step)
            state = state.parent
        return tuple(reversed(steps))


@dataclass(frozen=True, slots=True)
class _Net:
    """The steps, the bytes alive before the first, and those that nobody needs after it.

    feeds: for each step the set of those that read what it writes.
    """

    steps: tuple[_Step, ...]
    feeds: tuple[int, ...]
    given_bytes: int
    unread_bytes: int

    def cells(self) -> list[_Cell]:
        """Cut the order at each step that every order has at the same place."""
        before = [0] * len(self.steps)
        for number, step in enumerate(self.steps):
            for other in range(number):
                if step.needs >> other & 1:
                    before[number] |= before[other] | 1 << other
        after = [0] * len(self.steps)
        for number, mask in enumerate(before):
            for other in range(number):
                if mask >> other & 1:
                    after[other] |= 1 << number
        everything = (1 << len(self.steps)) - 1
        cells, done = [], 0
        for number in range(len(self.steps)):
            if before[number] | after[number] | 1 << number == everything:
                cells += [_Cell(done, _members(before[number] & ~done))]
                cells += [_Cell(before[number], (number,))]
                done = before[number] | 1 << number
        cells.append(_Cell(done, _members(everything & ~done)))
        return [cell for cell in cells if cell.steps]

    def peak(self, cell: _Cell) -> int:
        """Return the bytes of the fullest step of a cell."""
        done, state = cell.before, self._start(cell, 0)
        for number in cell.steps:
            state = self._next(done, state, number)
            done |= 1 << number
        return state.peak

    def lowered(self, cell: _Cell, floor: int, limit: int) -> _Cell | None:
        """Return a cell's steps in an order with a peak below `limit`, or None.

        floor: a peak that is no worse than a lower one.
        """
        states: list[dict[int, _State]] = [{} for _ in (0, *cell.steps)]
        start = self._settled(cell, cell.before, self._start(cell, floor), -1)
        states[len(start[1].steps)] = dict([start])
        tries = 0
        for reached in states[:-1]:
            count = max((TRIES - tries) // len(cell.steps), NARROW)
            for done, state in self._best(cell, reached, count):
                for number in self._ready(cell, done):
                    tries += 1
                    further = self._next(done, state, number)
                    if further.peak >= limit:
                        continue
                    after, further = self._settled(cell, done | 1 << number, further, state.peak)
                    same_size = states[(after & ~cell.before).bit_count()]
                    if after not in same_size or further.peak < same_size[after].peak:
                        same_size[after] = further
        found = next(iter(states[-1].values()), None)
        return _Cell(cell.before, found.steps) if found else None

    def _settled(self, cell: _Cell, done: int, state: _State, peak: int) -> tuple[int, _State]:
        """Run all that is surely best run at once.

        peak: before the last step. If it rose, any step may have become harmless; else only one
        that the last step let begin, or left as the only reader of something.
        """
        waiting = cell.mask if state.peak > peak else self._woken(done, state.step)
        while waiting := waiting & ~done & cell.mask:
            number = (waiting & -waiting).bit_length() - 1
            waiting &= waiting - 1
            if self.steps[number].needs & ~done:
                continue
            further = self._next(done, state, number)
            if further.peak == state.peak and further.live <= state.live:
                done, state = done | 1 << number, further
                waiting |= self._woken(done, number)
        return done, state

    def _woken(self, done: int, number: int) -> int:
        step = self.steps[number]
        woken = self.feeds[number]
        for read in (*step.reads, *step.writes):
            rest = read.readers & ~done
            if not rest & (rest - 1):
                woken |= rest
        return woken

    def _ready(self, cell: _Cell, done: int) -> list[int]:
        left = ~done
        return [n for n in cell.steps if left >> n & 1 and not self.steps[n].needs & left]

    def _best(
        self, cell: _Cell, states: Mapping[int, _State], count: int
    ) -> list[tuple[int, _State]]:
        """Return the sets that promise most, by the peak that the largest of the rest brings."""
        found = list(states.items())
        if len(found) <= count:
            return found
        written = {n: sum(w.size_bytes for w in self.steps[n].writes) for n in cell.steps}
        largest = sorted(written, key=lambda number: -written[number])

        def key(item: tuple[int, _State]) -> tuple[int, int, int]:
            done, state = item
            rest = next((written[number] for number in largest if not done >> number & 1), 0)
            return max(state.peak, state.live + rest), state.live + rest, state.live

        return sorted(found, key=key)[:count]

    def _start(self, cell: _Cell, floor: int) -> _State:
        live, done = self.given_bytes, 0
        for number in _members(cell.before):
            done |= 1 << number
            live += self.steps[number].added_bytes(done)
        return _State(floor, live)

    def _next(self, done: int, state: _State, number: int) -> _State:
        step, after = self.steps[number], done | 1 << number
        needed = state.live + step.extra_bytes(after) + (0 if done else self.unread_bytes)
        live = state.live + step.added_bytes(after)
        return _State(max(state.peak, needed), live, number, state)


def _members(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


def _net(graph: Graph, parts: Sequence[Part], options: Options) -> _Net:
    root = {name: name for name in graph.inputs}
    writer: dict[str, int] = {}
    readers = dict.fromkeys(graph.inputs, 0)
    for number, part in enumerate(parts):
        for name in part.reads:
            readers[root[name]] |= 1 << number
        for name in part.writes:
            root[name] = root[part.reads[0]] if part.is_move and part.reads else name
            readers.setdefault(root[name], 0)
            writer[name] = number
    outputs = (*graph.outputs, *(state.input for state in graph.states))
    kept = {root[name] for name in outputs if name in root}
    lives = {
        name: _Bytes(arena_bytes(name, graph, options), mask, name in kept)
        for name, mask in readers.items()
    }
    of = {name: lives[first] for name, first in root.items()}
    inputs = [lives[name] for name in dict.fromkeys(graph.inputs)]
    steps = tuple(_step(part, writer, root, of) for part in parts)
    return _Net(
        steps,
        tuple(
            sum(1 << reader for reader, step in enumerate(steps) if step.needs >> number & 1)
            for number in range(len(steps))
        ),
        sum(given.size_bytes for given in inputs if given.is_live(0)),
        sum(given.size_bytes for given in inputs if not given.is_live(0)),
    )


def _step(
    part: Part, writer: Mapping[str, int], root: Mapping[str, str], of: Mapping[str, _Bytes]
) -> _Step:
    pairs: dict[str, list[_Bytes]] = {}
    for read, written in part.in_place:
        if not part.is_move and of[read].size_bytes == of[written].size_bytes:
            pairs.setdefault(written, []).append(of[read])
    needs = 0
    for name in (*part.reads, *part.after):
        needs |= 1 << writer[name] if name in writer else 0
    return _Step(
        needs,
        tuple({root[name]: of[name] for name in part.reads}.values()),
        tuple(of[name] for name in part.writes if root[name] == name),
        tuple((of[written], tuple(sources)) for written, sources in pairs.items()),
    )
