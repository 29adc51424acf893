"""A hand-written kernel on what tasks bring: one call for a task, or for each of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dlbuild.emit.itext import bare
from dlbuild.ir.tile_plan import NearBuffer, Tiling
from dlbuild.rulebook.address import view_strides
from dlbuild.rulebook.instance import Access, Instance, Operand
from dlbuild.rulebook.rows import ROW, Part, Pointer, RowKernel, Rows, row_kernel
from dlbuild.rulebook.tiles import shifted
from dlbuild.stages.hand_space import is_stack, rows_by_hand
from dlbuild.stages.tile_fields import Fields, fields_of
from dlbuild.stages.tile_nest import from_start, order_of
from dlbuild.stages.tile_space import Moved, TileSpace

AT = "at"
"""The variable of the row of a task in C, counted from 0."""

Orders = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Call:
    """How the function that computes a part of a task is called.

    turns: how often, one row after the other: the C of a number, or empty: once.
    steps: elements from a row to the next, of operands that are given by their row. starts: the
    first row of those that lie there as a whole, as the C of an element number.
    given: the C of each number that the function takes.
    """

    turns: str = ""
    steps: Mapping[str, int] = field(default_factory=dict)
    starts: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)

    def argument(self, operand: str, pointer: str) -> str:
        """Return the C of a pointer to what the function is given of an operand."""
        at = [self.starts[operand]] if self.starts.get(operand) else []
        if operand in self.steps and self.turns:
            step = self.steps[operand]
            at.append(AT if step == 1 else f"({AT} * {step})")
        if not at:
            return pointer
        return f"&{pointer}[{bare(' + '.join(at))}]"


@dataclass(frozen=True)
class HandKernel:
    """The instance that is called, how its operands lie in memory, and the calls.

    Like a `NearKernel`; it keeps no partial sums.
    """

    compute: Instance
    orders: Orders
    call: Call
    finish: None = None


def hand_kernel(
    instance: Instance,
    space: TileSpace,
    tiling: Tiling,
    orders: Orders,
    constants: frozenset[str],
) -> HandKernel:
    """Return what computes a task of a hand-written kernel.

    Args:
        instance: with the operands of the hand-written kernel.
        space: the ways to cut it.
        tiling: how it is cut.
        orders: axis order of each operand in the far memory.
        constants: operands in the weight table.
    """
    fields = fields_of(space, tiling)
    # A task sees the windows in the nearest memory alone, wherever they come from.
    tiling = replace(tiling, loops=tiling.parts, around=None)
    tensors = frozenset(o.tensor for o in instance.operands if o.name in constants)
    buffers = {buffer.operand: buffer for buffer in tiling.buffers}
    near = dict(orders) | {m.operand.name: order_of(m) for m in space.moved if not m.is_whole}
    made = _of_channels(instance, space, tiling, buffers)
    if not tiling.is_by_rows:
        return HandKernel(_without_tables(made, space), near, Call(given=_numbers(fields)))
    rows = rows_by_hand(made, near, tensors)
    assert rows is not None, "it is planned in rows"
    part = _part(made, rows, tiling, buffers)
    row = row_kernel(made, rows, part)
    call = _Rows(space, tiling, fields, rows, row, near, part.step > 1).call()
    return HandKernel(_without_tables(row.instance, space), near, call)


def _of_channels(
    instance: Instance, space: TileSpace, tiling: Tiling, buffers: Mapping[str, NearBuffer]
) -> Instance:
    """Return the kernel of the channels of one task, as of a smaller operator."""
    by_hand = instance.handwritten
    assert by_hand is not None
    blocks = by_hand.blocks
    cut = next((c for c in tiling.loops if blocks and c.axis == blocks.axis), None)
    (nest,) = instance.nests
    moved = {m.operand.name: m for m in space.moved if not m.is_whole}
    axis = cut.axis if cut else ""
    operands = {o.name: _narrow(o, moved.get(o.name), axis, buffers) for o in instance.operands}
    if cut is None or blocks is None:
        return replace(instance, operands=tuple(operands.values()))
    begun = shifted(nest, {cut.axis: cut.size})
    access = {
        name: _inside(found, operands[found.operand], moved, {cut.axis: cut.size})
        for name, found in begun.access.items()
    }
    given = {n: bound for n, bound in begun.given.items() if n != f"{cut.axis}_count"}
    count = {axis: name for axis, name in begun.count.items() if axis != cut.axis}
    sizes = {**by_hand.sizes, **dict.fromkeys(blocks.sizes, cut.size)}
    return replace(
        instance,
        operands=tuple(operands.values()),
        nests=(replace(begun, access=access, given=given, count=count),),
        handwritten=replace(by_hand, sizes=sizes),
    )


def _narrow(
    operand: Operand, moved: Moved | None, axis: str, buffers: Mapping[str, NearBuffer]
) -> Operand:
    """Return an operand as it is seen, with those of its channels that a window holds."""
    if moved is None:
        return operand
    window = buffers[operand.name].shape
    along = [axis in moved.axes(number) for number in range(len(moved.view))]
    sizes = zip(along, window, moved.view, strict=True)
    return replace(operand, shape=tuple(w if is_along else n for is_along, w, n in sizes))


def _inside(
    access: Access, operand: Operand, moved: Mapping[str, Moved], cut: Mapping[str, int]
) -> Access:
    """Return an access of a window as one that counts channels from the first of these."""
    if access.operand not in moved:
        return access
    index = tuple(from_start(part, cut) for part in access.index)
    return replace(access, index=index, view=operand.shape)


def _without_tables(instance: Instance, space: TileSpace) -> Instance:
    """Return the kernel whose constants are brought like its inputs."""
    moved = {m.operand.name for m in space.moved}
    operands = tuple(
        replace(o, role=o.role if o.role == "output" else "input", order=())
        if o.name in moved
        else o
        for o in instance.operands
    )
    return replace(instance, operands=operands)


def _part(
    instance: Instance, rows: Rows, tiling: Tiling, buffers: Mapping[str, NearBuffer]
) -> Part:
    """Return what is there of the operands of a row."""
    sizes = {cut.axis: cut.size for cut in tiling.loops}
    (nest,) = instance.nests
    if is_stack(rows):
        step = sizes.get(rows.axis, rows.count)
        return Part({}, fetched=_brought(instance, rows, buffers), step=step)
    columns = rows.columns
    widths = {
        instance.operand(access.operand).tensor: buffers[access.operand].shape[axis]
        for name, axis in (columns.across.items() if columns else ())
        for access in [nest.access[name]]
        if access.operand in buffers
    }
    # Of columns that nothing reads, windows have none.
    is_narrow = columns is not None and any(
        buffers[access.operand].shape[axis] < access.view[axis]
        for name, axis in columns.across.items()
        for access in [nest.access[name]]
        if access.operand in buffers
    )
    if columns is None or not (is_narrow or columns.axis in sizes):
        return Part({}, fetched=_brought(instance, rows, buffers))
    size = sizes.get(columns.axis, columns.count)
    return Part({}, size, widths, _brought(instance, rows, buffers))


def _brought(instance: Instance, rows: Rows, buffers: Mapping[str, NearBuffer]) -> frozenset[str]:
    """Return the tensors of which the rows that a task reads are there."""
    (nest,) = instance.nests
    operands = {nest.access[name].operand for name in rows.slow}
    return frozenset(instance.operand(name).tensor for name in operands if name in buffers)


def _numbers(fields: Fields) -> dict[str, str]:
    return {name: _field(value) for name, value in fields.given.items()}


def _field(value: str | int) -> str:
    return f"task.{value}" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class _Rows:
    """The call of a row kernel."""

    space: TileSpace
    tiling: Tiling
    fields: Fields
    rows: Rows
    row: RowKernel
    orders: Orders
    is_at_once: bool

    def call(self) -> Call:
        axis = self.rows.axis
        extent = self.space.nest.extent[axis]
        sizes = {cut.axis: cut.size for cut in self.tiling.loops}
        count = self.fields.given.get(f"{axis}_count", sizes.get(axis, extent))
        turns = "" if self.is_at_once else _field(count)
        first = _field(self.fields.given.get(f"{axis}_first", 0))
        row = AT if first == "0" else f"{first} + {AT}"
        given = _numbers(self.fields)
        given[ROW] = first if self.is_at_once else row
        given[f"{axis}_count"] = _field(count)
        if (columns := self.rows.columns) is not None:
            given.setdefault(f"{columns.axis}_first", "0")
            count = sizes.get(columns.axis, columns.count)
            given.setdefault(f"{columns.axis}_count", str(count))
        given |= self._origins()
        steps = {p.operand: p.stride * self._pitch(p) for p in self.row.pointers}
        starts = {p.operand: self._start(p, first) for p in self.row.pointers}
        return Call(turns, steps, starts, given)

    def _origins(self) -> dict[str, str]:
        """Return where the windows begin of which a row kernel is told that."""
        (nest,) = self.row.instance.nests
        found = {}
        for name, slow in self.rows.slow.items():
            operand = nest.access[name].operand
            spans = self.fields.spans.get(operand)
            if spans is None:
                continue
            found[f"{operand}_top"] = _field(spans[slow].first)
            if self.rows.columns and name in self.rows.columns.across:
                across = self.rows.columns.across[name]
                found[f"{name}_first{across}"] = _field(spans[across].first)
        return found

    def _access(self, pointer: Pointer) -> str:
        (nest,) = self.row.instance.nests
        return next(n for n in self.rows.slow if nest.access[n].operand == pointer.operand)

    def _pitch(self, pointer: Pointer) -> int:
        """Return the elements from one row of an operand to the next."""
        (nest,) = self.row.instance.nests
        name = self._access(pointer)
        operand = self.row.instance.operand(pointer.operand)
        order = self.orders.get(operand.name, ())
        pitch = view_strides(nest.access[name].view, operand.shape, order)
        assert pitch is not None, "rows lie without a gap"
        return pitch[self.rows.slow[name]]

    def _start(self, pointer: Pointer, first: str) -> str:
        """Return the element at which the first row of a task is, where all rows are there."""
        if pointer.operand in self.fields.spans:
            return ""
        pitch = self._pitch(pointer)
        low = pointer.low * pitch
        moving = "" if first == "0" else f"({first} * {pointer.stride * pitch})"
        return " + ".join(part for part in (moving, str(low) if low else "") if part)
