"""The numbers that tell a task from the next: where its parts and windows begin, and how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlbuild.emit.comments import filled
from dlbuild.emit.fit import called
from dlbuild.emit.itext import IndexText, Place, bare
from dlbuild.emit.literals import COLUMNS
from dlbuild.emit.ranges import Ranges
from dlbuild.ir.tile_plan import Tiling
from dlbuild.rulebook.index import Bound, Index, Quotient, Remainder
from dlbuild.stages.tasks import boxes, deciding
from dlbuild.stages.tile_nest import is_moving
from dlbuild.stages.tile_space import Moved, TileSpace, window
from dlbuild.stages.tile_space import Ranges as Box

MARGIN = "    "

PART = "part"
"""What C calls the part of a kernel that a task is of."""


@dataclass(frozen=True, slots=True)
class Field:
    """A member of the struct of a task: its name, and the C that computes it.

    then: what it becomes after that, if one statement is too long for a line.
    """

    name: str
    value: str
    then: str = ""

    @property
    def statements(self) -> str:
        """The C that assigns it, for a body of a function."""
        values = (self.value, *([self.then] if self.then else []))
        return "\n".join(_assigned(self.name, value) for value in values)


@dataclass(frozen=True, slots=True)
class Span:
    """A window along one axis in C: where it begins and how long it is.

    first, count: the name of a field, or a number.
    """

    first: str | int
    count: str | int


@dataclass(frozen=True)
class Fields:
    """The struct of a task.

    given: what each number that a kernel takes is called, or is.
    spans: of each operand that is moved, its windows by axis of the view.
    changes: of each operand, the fields that differ when its window does.
    """

    members: tuple[Field, ...]
    given: Mapping[str, str | int]
    spans: Mapping[str, tuple[Span, ...]]
    changes: Mapping[str, tuple[str, ...]]


def fields_of(space: TileSpace, tiling: Tiling) -> Fields:
    """Return the struct that a kernel's tasks are described by."""
    return _Maker(space, tiling).made()


class _Maker:
    def __init__(self, space: TileSpace, tiling: Tiling) -> None:
        self._space = space
        self._tiling = tiling
        self._sizes = {cut.axis: cut.size for cut in tiling.parts}
        outer = tiling.outer.loops if tiling.outer else ()
        self._outer = {cut.axis: cut.size for cut in outer}
        self._extent = space.nest.extent
        self._members: list[Field] = []
        self._named: dict[str, str] = {}
        self._given: dict[str, str | int] = {}
        self._bounds: dict[str, Bound] = {}

    def made(self) -> Fields:
        self._add_axes()
        spans = {m.operand.name: self._spans(m) for m in self._space.moved}
        changes = {
            m.operand.name: self._changes(m, spans[m.operand.name]) for m in self._space.moved
        }
        return Fields(tuple(self._members), self._given, spans, changes)

    def _add_axes(self) -> None:
        """Add where the part of each axis begins, and its extent if the last one is smaller."""
        inner = 1
        found: list[list[Field]] = []
        for cut in reversed(self._tiling.loops):
            axis, size, extent = cut.axis, cut.size, self._extent[cut.axis]
            trips = -(-self._outer.get(axis, extent) // size)
            text = _place(inner, trips, size, is_outermost=cut == self._tiling.loops[0])
            if axis in self._outer:
                text = f"{PART}->{axis}_first + ({text})"
            found.append(self._axis_fields(axis, size, text))
            inner *= trips
        inside = {cut.axis for cut in self._tiling.loops}
        for axis, size in self._outer.items():
            if axis not in inside:
                found.append(self._axis_fields(axis, size, f"{PART}->{axis}_first"))
        for fields in reversed(found):
            self._members += fields
        self._named = {f"task.{f.name}": f.name for f in self._members}

    def _axis_fields(self, axis: str, size: int, text: str) -> list[Field]:
        extent, first = self._extent[axis], f"task.{axis}_first"
        fields = [Field(f"{axis}_first", text)]
        self._bounds[first] = (0, (-(-extent // size) - 1) * size)
        self._given[f"{axis}_first"] = f"{axis}_first"
        if extent % size:
            count = f"{axis}_count"
            fields.append(Field(count, f"min_i32({size}, {extent} - {first})"))
            self._bounds[f"task.{count}"] = (extent % size, size)
            self._given[count] = count
        return fields

    def _boxes(self, axes: Iterable[str]) -> Iterator[Box]:
        """Yield the parts of the domain that differ along some axes; the others are whole."""
        chosen = set(axes)
        loops = [(cut.axis, cut.size) for cut in self._tiling.parts if cut.axis in chosen]
        return boxes(loops, self._extent)

    def _spans(self, moved: Moved) -> tuple[Span, ...]:
        return tuple(self._span(moved, axis) for axis in range(len(moved.view)))

    def _span(self, moved: Moved, axis: int) -> Span:
        """Name where a window begins and how long it is; equal texts have one name."""
        windows = {window(moved, box, (axis,))[0] for box in self._boxes(moved.axes(axis))}
        firsts, counts = {f for f, _ in windows}, {last - f for f, last in windows}
        if moved.is_whole or not is_moving(moved, axis, tuple(self._sizes)):
            return Span(firsts.pop(), counts.pop())
        name = f"{moved.operand.name}_first{axis}"
        low, high = self._edges(moved, axis)
        first: str | int = firsts.pop() if len(firsts) == 1 else self._field(name, low)
        self._given[name] = first
        if len(counts) == 1:
            return Span(first, counts.pop())
        start = first if isinstance(first, int) else f"task.{first}"
        count_name = f"{moved.operand.name}_count{axis}"
        same = next((c for c in self._sizes if self._is_count(c, axis, moved)), None)
        if same:
            return Span(first, f"{same}_count")

        def count(end: str) -> str:
            text = f"{end} - {start}" if start else end
            return f"max_i32({text}, 1)" if self._may_be_padding(moved, axis) else text

        if start and len(_assigned(count_name, count(high))) > COLUMNS:
            then = count(f"task.{count_name}")
            return Span(first, self._add(count_name, high, then))
        return Span(first, self._add(count_name, count(high)))

    def _is_count(self, cut: str, axis: int, moved: Moved) -> bool:
        """Tell whether a window has always the extent of a part of the axis `cut`."""
        return f"{cut}_count" in self._given and all(
            last - first == box[cut][1] - box[cut][0]
            for box in self._boxes({cut, *moved.axes(axis)})
            for first, last in [moved.window(box)[axis]]
        )

    def _edges(self, moved: Moved, axis: int) -> tuple[str, str]:
        """Return the C of where a window begins and ends, clipped to the tensor."""
        extent = moved.view[axis]
        lows, highs = [], []
        for index in dict.fromkeys(access.index[axis] for access in moved.accesses):
            lows.append(self._clipped(self._edge(index, is_low=True), extent - 1))
            highs.append(self._clipped(self._edge(index, is_low=False) + 1, extent))
        return _joined("min_i32", lows), _joined("max_i32", highs)

    def _edge(self, index: Index, *, is_low: bool) -> Index:
        """Return the least or the greatest value of a map over a task, as a map of its numbers."""
        total = Index((), index.constant)
        for atom, factor in index.terms:
            is_least = is_low == (factor > 0)
            if isinstance(atom, str):
                edge = self._axis_edge(atom, is_low=is_least)
            else:
                assert isinstance(atom, Quotient | Remainder), "no other form is cut"
                edge = self._block_edge(atom, is_low=is_least)
            total = total + edge * factor
        return total

    def _axis_edge(self, axis: str, *, is_low: bool) -> Index:
        size = self._sizes.get(axis)
        if size is None:
            return Index.of(0 if is_low else self._extent[axis] - 1)
        first = Index.axis(f"task.{axis}_first")
        if is_low:
            return first
        count = f"task.{axis}_count"
        last = Index.axis(count) - 1 if count in self._bounds else Index.of(size - 1)
        return first + last

    def _block_edge(self, atom: Quotient | Remainder, *, is_low: bool) -> Index:
        inner = self._edge(atom.of, is_low=is_low)
        if isinstance(atom, Quotient):
            return inner // atom.by
        is_inside = all(
            low // atom.by == high // atom.by
            for low, high in (atom.of.interval(box) for box in self._boxes(atom.of.axes()))
        )
        return inner % atom.by if is_inside else Index.of(0 if is_low else atom.by - 1)

    def _may_be_padding(self, moved: Moved, axis: int) -> bool:
        """Tell whether a window lies outside the tensor; one element stands for it."""
        bounds = (
            [a.index[axis].interval(box) for a in moved.accesses]
            for box in self._boxes(moved.axes(axis))
        )
        return any(
            max(high for _, high in found) < 0 or min(low for low, _ in found) >= moved.view[axis]
            for found in bounds
        )

    def _clipped(self, index: Index, extent: int) -> str:
        """Return the C of a map, brought into 0 to `extent`."""
        ranges = Ranges({}, {}, self._bounds)
        text = IndexText(ranges, {}, _no_place, {}).index(index)
        low, high = ranges.index(index)
        if low < 0:
            text = f"max_i32({text}, 0)"
        if high > extent:
            text = f"min_i32({text}, {extent})"
        return text

    def _field(self, name: str, text: str) -> str:
        """Return the field that holds a text, a new one if there is none."""
        return self._named[text] if text in self._named else self._add(name, text)

    def _add(self, name: str, text: str, then: str = "") -> str:
        self._members.append(Field(name, bare(text), then))
        if not then:
            self._named[text] = name
        return name

    def _changes(self, moved: Moved, spans: Sequence[Span]) -> tuple[str, ...]:
        """Return the fields to compare: where windows begin, and counts that this does not tell."""
        firsts = [s.first for s in spans if isinstance(s.first, str)]
        counts = [s.count for s in spans if isinstance(s.count, str)]
        is_told = self._is_told(moved)
        return tuple(dict.fromkeys([*firsts, *(() if is_told else counts)]))

    def _is_told(self, moved: Moved) -> bool:
        """Tell whether windows that begin at the same place are the same."""
        for axis in range(len(moved.view)):
            along = {window(moved, b, (axis,))[0] for b in self._boxes(moved.axes(axis))}
            if len({first for first, _ in along}) < len(along):
                break
        else:
            return True
        axes = deciding(moved, list(self._sizes))
        windows = {moved.window(box) for box in self._boxes(axes)}
        return len({tuple(first for first, _ in w) for w in windows}) == len(windows)


def _place(inner: int, trips: int, size: int, *, is_outermost: bool) -> str:
    """Return the C of where a loop's part begins in the task `number`. inner: tasks inside it."""
    text = "number" if inner == 1 else f"number / {inner}"
    if not is_outermost:
        text = f"({text}) % {trips}" if inner > 1 else f"{text} % {trips}"
    if size == 1:
        return text
    return f"({text}) * {size}" if " " in text else f"{text} * {size}"


def _assigned(name: str, value: str) -> str:
    """Return the C that gives a member its value; what is too long is broken in a call."""
    line = f"{MARGIN}task.{name} = {value};"
    call = called(value)
    if len(line) <= COLUMNS or call is None:
        return line
    function, arguments = call
    return filled(f"{MARGIN}task.{name} = {function}(", arguments, ");")


def _joined(function: str, texts: Sequence[str]) -> str:
    first, *rest = dict.fromkeys(texts)
    for text in rest:
        first = f"{function}({first}, {text})"
    return first


def _no_place(_atom: object) -> Place:
    raise AssertionError("an index that is loaded is never cut")
