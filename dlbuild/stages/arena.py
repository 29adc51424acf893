"""The model's working memory in C: a union of typed arrays, and where in it a tensor lies."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlbuild.emit.comments import quoted
from dlbuild.emit.ctypes import storage
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.graph import Graph
from dlbuild.ir.schedule import Buffer, MemoryUse, Schedule
from dlbuild.ir.target import Options, Target
from dlbuild.stages.interface import Interface

CALLER = "caller"
NEAR = ("near", "middle")
"""What the arrays of near memories are members of in C, the nearest first."""

MEMBER = {
    "bool": "b8",
    "float": "f32",
    "double": "f64",
    **{f"int{bits}_t": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": f"u{bits}" for bits in (8, 16, 32, 64)},
}
_SIZE = {ctype: int(member[1:]) // 8 for ctype, member in MEMBER.items()}


@dataclass(frozen=True, slots=True)
class Member:
    """One typed view of the arena: `ctype name[count]`."""

    ctype: str
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Arena:
    """The arena's C type. size_bytes: `sizeof` the union, the plan's height rounded up.

    counters: lines of a further member, the counters of rows that outlive a call.
    name: what C calls it.
    """

    use: MemoryUse
    members: tuple[Member, ...]
    size_bytes: int
    align_bytes: int
    counters: tuple[str, ...] = ()
    name: str = "arena"

    @property
    def natural_align_bytes(self) -> int:
        """The alignment that the union has by its members."""
        return max((_SIZE[m.ctype] for m in self.members), default=1)


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes [first, last) of one object in C."""

    base: str
    first: int
    last: int

    def overlaps(self, other: "Region") -> bool:
        """Return whether the two share a byte."""
        return self.base == other.base and self.first < other.last and other.first < self.last


def name_of(memory: str) -> str:
    """Return what C calls the arena in a memory; each cluster has one of its own."""
    cluster, dot, _ = memory.partition(".")
    return f"arena_{cluster}" if dot else "arena"


def arenas(graph: Graph, schedule: Schedule) -> tuple[Arena, ...]:
    """Return the arena of each cluster; without clusters the one that there is."""
    if not graph.clusters.is_several:
        return (arena(graph, schedule),)
    return tuple(_arena(graph, schedule, use, "") for use in schedule.memories)


def arena(graph: Graph, schedule: Schedule, counters: str = "") -> Arena:
    """Return the arena of a schedule; it has no members if no tensor lies in it.

    counters: the buffer that is no array but a structure of its own.
    """
    return _arena(graph, schedule, schedule.memories[0], counters)


def _arena(graph: Graph, schedule: Schedule, use: MemoryUse, counters: str) -> Arena:
    resident = [b for b in schedule.buffers if b.memory == use.memory]
    ctypes = {storage(dtype_of(graph, b)) for b in resident if b.tensor != counters}
    natural = max((_SIZE[storage(dtype_of(graph, b))] for b in resident), default=1)
    size_bytes = -(-use.height_bytes // natural) * natural
    members = tuple(
        Member(ctype, name, size_bytes // _SIZE[ctype])
        for ctype, name in MEMBER.items()
        if ctype in ctypes
    )
    align_bytes = max([natural, *(b.align_bytes for b in resident)])
    return Arena(use, members, size_bytes, align_bytes, name=name_of(use.memory))


def dtype_of(graph: Graph, buffer: Buffer) -> str:
    """Return the element type of what a buffer holds."""
    return buffer.dtype or graph.tensor[buffer.tensor].dtype


@dataclass(frozen=True, slots=True)
class NearRoom:
    """A near memory in C: a union of typed arrays that windows lie in, and tensors that stay."""

    name: str
    use: MemoryUse
    members: tuple[Member, ...]
    size_bytes: int
    align_bytes: int


def near_rooms(graph: Graph, schedule: Schedule, target: Target) -> tuple[NearRoom, ...]:
    """Return the room in each near memory that something uses."""
    return tuple(
        _near_room(graph, schedule, target, use, name)
        for use, name in zip(schedule.near, NEAR, strict=False)
    )


def _near_room(
    graph: Graph, schedule: Schedule, target: Target, use: MemoryUse, name: str
) -> NearRoom:
    ctypes = {storage(dtype_of(graph, b)) for b in schedule.buffers if b.memory == use.memory}
    align = max(m.align_bytes for m in target.memories if m.name == use.memory)
    natural = max(align, *(_SIZE[c] for c in ctypes))
    size_bytes = -(-use.height_bytes // natural) * natural
    members = tuple(
        Member(ctype, member, size_bytes // _SIZE[ctype])
        for ctype, member in MEMBER.items()
        if ctype in ctypes
    )
    return NearRoom(name, use, members, size_bytes, natural)


class Places:
    """C expressions for the tensors of a schedule."""

    def __init__(self, graph: Graph, schedule: Schedule, face: Interface, options: Options) -> None:
        self._graph = graph
        self._schedule = schedule
        self._face = face
        self._nearest = schedule.memories[0].memory
        self._arena = f"{name_of(self._nearest)}{'->' if options.arena == 'caller' else '.'}"
        self._near = dict(zip((use.memory for use in schedule.near), NEAR, strict=False))

    def element(self, tensor: str) -> str:
        """Return the expression of a tensor's first element."""
        buffer = self._schedule.buffer[tensor]
        at = buffer.offset_bytes // _SIZE[self._ctype(buffer)]
        return f"{self._array(buffer)}[{at}]"

    def row(self, tensor: str, row: str, elements: int) -> str:
        """Return the expression of a pointer to a row.

        Args:
            tensor: a tensor of a strip.
            row: which of the rows that are there, as C; the empty text = the first.
            elements: of one row.
        """
        buffer = self._schedule.buffer[tensor]
        if not row:
            return self.pointer(tensor)
        at = buffer.offset_bytes // _SIZE[self._ctype(buffer)]
        factor = f"({row})" if " " in row else row
        place = row if elements == 1 else f"{factor} * {elements}"
        return f"&{self._array(buffer)}[{f'{at} + ({place})' if at else place}]"

    def _ctype(self, buffer: Buffer) -> str:
        return storage(dtype_of(self._graph, buffer))

    def _array(self, buffer: Buffer) -> str:
        if buffer.memory == CALLER:
            return self._owner(buffer)
        if buffer.memory in self._near:
            return f"{self._near[buffer.memory]}.{MEMBER[self._ctype(buffer)]}"
        arena = self._arena if buffer.memory == self._nearest else f"{name_of(buffer.memory)}."
        return f"{arena}{MEMBER[self._ctype(buffer)]}"

    def pointer(self, tensor: str) -> str:
        """Return the expression of a pointer to a tensor's first element."""
        buffer = self._schedule.buffer[tensor]
        if buffer.memory == CALLER and buffer.offset_bytes == 0:
            return self._owner(buffer)
        return f"&{self.element(tensor)}"

    def region(self, tensor: str) -> Region:
        """Return the bytes of a tensor."""
        buffer = self._schedule.buffer[tensor]
        base = f"{CALLER} {self._owner(buffer)}" if buffer.memory == CALLER else buffer.memory
        return Region(base, buffer.offset_bytes, buffer.offset_bytes + buffer.size_bytes)

    def _owner(self, buffer: Buffer) -> str:
        return self._face.port(buffer.alias_of or buffer.tensor).name


def lifetime_table(buffers: Sequence[Buffer]) -> list[str]:
    """Return lines that show where each tensor lies and from which step to which it lives."""
    resident = sorted(
        (b for b in buffers if b.memory != CALLER),
        key=lambda b: (b.first_step, b.offset_bytes, b.alias_of != ""),
    )
    rows = [
        (f"{b.offset_bytes:,}", f"{b.size_bytes:,}", f"{b.first_step}-{b.last_step - 1}")
        for b in resident
    ]
    rows.insert(0, ("offset", "bytes", "steps"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = COLUMNS - len(" * ") - sum(widths) - 2 * len(widths)
    names = ["tensor", *(_named(b, room) for b in resident)]
    return [
        "  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=True)), name])
        for row, name in zip(rows, names, strict=True)
    ]


def _named(buffer: Buffer, room: int) -> str:
    if buffer.rows:
        kept = f", {buffer.rows} {'row' if buffer.rows == 1 else 'rows'} at a time"
        return quoted(buffer.tensor, room - len(kept)) + kept
    if not buffer.alias_of:
        return quoted(buffer.tensor, room)
    half = (room - len(" in ")) // 2
    return f"{quoted(buffer.tensor, half)} in {quoted(buffer.alias_of, half)}"
