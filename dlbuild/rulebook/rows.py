"""Kernels row by row: which rows a row needs, and the nest that computes one.

A row is a step along the slowest axis in memory that has more than one. Only the maps decide
whether a kernel can be computed in rows: its output must be written along one axis of the domain
(or of the reduction, then rows add up), and its inputs read in windows that move with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.tile_plan import RowRead
from dlbuild.rulebook.address import view_strides
from dlbuild.rulebook.derive import Orders, loaded_operands, offset_accesses, order_in, step_reads
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance, Nest, Operand
from dlbuild.rulebook.rule import NEST_TEMPLATE
from dlbuild.rulebook.tiles import Partial, at, partial, several, shifted

ROW = "row"
"""The name under which a kernel is given its row."""


@dataclass(frozen=True)
class Columns:
    """How a row is computed in parts.

    axis: of the domain, or of the reduction if rows add up. reads: the columns that a column reads.
    across: for each access of an activation the axis of its view along which columns lie.
    """

    axis: str
    count: int
    reads: tuple[RowRead, ...]
    across: Mapping[str, int]


@dataclass(frozen=True)
class Rows:
    """How a kernel is computed in rows.

    axis: see Layer. parts: the two nests of a reduction along the rows, else None.
    slow: for each access of an activation the axis of its view along which rows lie.
    columns: how a row is cut into columns, None if it cannot be.
    points: how many results of a row share each weight, 0 if it has none that rows share.
    """

    axis: str
    count: int
    reads: tuple[RowRead, ...]
    writes: str
    parts: Partial | None
    slow: Mapping[str, int]
    columns: Columns | None = None
    points: int = 0


@dataclass(frozen=True, slots=True)
class Pointer:
    """An operand of which a kernel is given row `stride * row + low` alone."""

    operand: str
    stride: int
    low: int


@dataclass(frozen=True)
class Part:
    """What is there of the tensors that a row kernel reads and writes.

    rings: how many rows are kept of each tensor that is not there as a whole.
    columns: the most columns that are computed at a time, 0 = all; widths: how many columns of a
    ring are kept, where it is not all.
    fetched: tensors of which the rows that a row reads are brought, and no others.
    step: how many rows are computed at a time.
    """

    rings: Mapping[str, int]
    columns: int = 0
    widths: Mapping[str, int] = field(default_factory=dict)
    fetched: frozenset[str] = frozenset()
    step: int = 1


@dataclass(frozen=True)
class RowKernel:
    """The instance that computes one row, and the operands that are given by their row.

    origins: for names that the caller gives, the tensor whose first column in the pass they are;
    tops: the same for the first row that was brought.
    """

    instance: Instance
    pointers: tuple[Pointer, ...]
    origins: Mapping[str, str] = field(default_factory=dict)
    tops: Mapping[str, str] = field(default_factory=dict)


def rows_of(instance: Instance, orders: Orders, constants: frozenset[str]) -> Rows | None:
    """Return how an instance is computed row by row, None if it cannot be.

    Args:
        instance: a kernel's.
        orders: how its operands lie in memory.
        constants: the tensors that are no activations.
    """
    if len(instance.nests) != 1 or instance.template not in ("", NEST_TEMPLATE):
        return None
    (nest,) = instance.nests
    outputs = [o for o in instance.operands if o.role == "output"]
    active = {
        o.name
        for o in instance.operands
        if o.role == "output" or (o.role == "input" and o.tensor not in constants)
    }
    used = {name: a for name, a in nest.access.items() if a.operand in active}
    is_odd = any(DTYPES[instance.operand(name).dtype].bits % 8 for name in active)
    if (
        len(outputs) != 1
        or is_odd
        or any(offset_accesses(nest.steps))
        or loaded_operands(nest) & active
    ):
        return None
    slow = {name: _slowest(a, instance.operand(a.operand), orders) for name, a in used.items()}
    known = {name: axis for name, axis in slow.items() if axis is not None}
    if known.keys() != slow.keys():
        return None
    found = _along_output(instance, nest, known, outputs[0])
    if not found or not any(read.stride for read in found.reads):
        found = _along_input(instance, nest, known, outputs[0]) or found
    return found and replace(
        found,
        columns=_columns(instance, nest, found, orders),
        points=_points(instance, nest, found, constants),
    )


def _points(instance: Instance, nest: Nest, rows: Rows, constants: frozenset[str]) -> int:
    """Return how many results of a row share each weight, 0 if it has none that rows share."""
    if rows.parts:
        return 0
    folded = {name for step in nest.steps if step.folds for name in step_reads(step)}
    weights = [
        set(index.axes())
        for name in folded
        if instance.operand(nest.access[name].operand).tensor in constants
        for index in nest.access[name].index
    ]
    axes = set().union(*weights)
    if not axes & set(nest.reduce) or rows.axis in axes:
        return 0
    return prod(nest.extent[a] for a in nest.domain if a not in axes and a != rows.axis)


def _slowest(access: Access, operand: Operand, orders: Orders) -> int | None:
    """Return the axis of the view along which memory is cut into rows without a gap."""
    pitch = view_strides(access.view, operand.shape, order_in(orders, operand))
    if pitch is None:
        return None
    axes = [axis for axis, extent in enumerate(access.view) if extent > 1]
    return max(axes, key=lambda axis: pitch[axis], default=None)


def _columns(instance: Instance, nest: Nest, rows: Rows, orders: Orders) -> Columns | None:
    """Return how the rows can be cut into columns; those of the input, if rows add up."""
    across: dict[str, int] = {}
    for name, slow in rows.slow.items():
        access = nest.access[name]
        operand = instance.operand(access.operand)
        if rows.parts and operand.role == "output":
            continue
        pitch = view_strides(access.view, operand.shape, order_in(orders, operand))
        axes = [a for a, extent in enumerate(access.view) if extent > 1 and a != slow]
        if access.view != operand.shape or pitch is None or not axes:
            return None
        across[name] = max(axes, key=lambda axis: pitch[axis])
    role = "input" if rows.parts else "output"
    (leading, *_) = [n for n in across if instance.operand(nest.access[n].operand).role == role]
    place = nest.access[leading].index[across[leading]].substitute(_unit_axes(nest))
    axes_there = [a for a in place.axes() if a in (nest.reduce if rows.parts else nest.domain)]
    if len(axes_there) != 1 or place != Index.axis(axes_there[0]):
        return None
    (axis,) = axes_there
    is_whole = nest.extent[axis] == nest.access[leading].view[across[leading]]
    if rows.parts and partial(nest, axis, Index.axis(axis)) is None:
        return None
    reads = _reads(instance, nest, across, axis)
    if reads is None or not is_whole:
        return None
    return Columns(axis, nest.extent[axis], reads, across)


def _stores(nest: Nest, output: Operand) -> list[Access]:
    stores = [nest.access[s.access] for step in nest.steps for s in step.stores]
    return [access for access in stores if access.operand == output.name]


def _along_output(
    instance: Instance, nest: Nest, slow: Mapping[str, int], output: Operand
) -> Rows | None:
    writes = _stores(nest, output)
    (name,) = [n for n, a in nest.access.items() if a.operand == output.name][:1] or [""]
    if len(writes) != 1 or not name or writes[0].guards:
        return None
    place = writes[0].index[slow[name]]
    axes = [axis for axis in place.axes() if axis in nest.domain]
    if len(axes) != 1 or place != Index.axis(axes[0]):
        return None
    reads = _reads(instance, nest, slow, axes[0])
    if reads is None or nest.extent[axes[0]] != writes[0].view[slow[name]]:
        return None
    return Rows(axes[0], nest.extent[axes[0]], reads, output.tensor, None, slow)


def _along_input(
    instance: Instance, nest: Nest, slow: Mapping[str, int], output: Operand
) -> Rows | None:
    """Cut a reduction over the rows of the only activation that is read."""
    reading = {name for step in nest.steps for name in step_reads(step) if name in slow}
    folded = {name for step in nest.steps if step.folds for name in step_reads(step)}
    if len(reading) != 1 or not reading <= folded:
        return None
    (name,) = reading
    place = nest.access[name].index[slow[name]].substitute(_unit_axes(nest))
    axes = [axis for axis in place.axes() if axis in nest.reduce]
    if len(axes) != 1 or place != Index.axis(axes[0]) or nest.access[name].guards:
        return None
    parts = partial(nest, axes[0], Index.axis(axes[0]))
    reads = _reads(instance, nest, slow, axes[0])
    if parts is None or reads is None:
        return None
    return Rows(axes[0], nest.extent[axes[0]], reads, output.tensor, parts, slow)


def _reads(
    instance: Instance, nest: Nest, slow: Mapping[str, int], axis: str
) -> tuple[RowRead, ...] | None:
    found: dict[str, RowRead] = {}
    for name in dict.fromkeys(n for step in nest.steps for n in step_reads(step)):
        if name not in slow:
            continue
        access = nest.access[name]
        read = _read(instance.operand(access.operand).tensor, access, slow[name], nest, axis)
        if read is None:
            return None
        other = found.get(read.tensor, read)
        if (other.stride, other.extent) != (read.stride, read.extent):
            return None
        low, high = min(read.low, other.low), max(read.high, other.high)
        found[read.tensor] = replace(read, low=low, high=high)
    return tuple(found.values())


def _read(tensor: str, access: Access, number: int, nest: Nest, axis: str) -> RowRead | None:
    index, extent = access.index[number], access.view[number]
    stride = index.coefficient(axis)
    if stride < 0 or axis in index.entangled_axes():
        return None
    low, high = index.interval({a: (0, 1 if a == axis else e) for a, e in nest.extent.items()})
    if stride == 0 and (low > 0 or high + 1 < extent):
        return None
    if stride == 0:
        low, high = 0, extent - 1
    return RowRead(tensor, stride, low, high + 1, extent)


def row_kernel(instance: Instance, rows: Rows, part: Part) -> RowKernel:
    """Return the instance of one row.

    Args:
        instance: the whole kernel.
        rows: how it is computed in rows.
        part: what is there of its operands.
    """
    nest, along = _added(instance, rows, part), rows.axis
    nest = several(nest, along, ROW, part.step) if part.step > 1 else at(nest, along, ROW)
    operands = instance.operands
    origins: Mapping[str, str] = {}
    if part.columns and rows.columns:
        nest, operands, origins = _in_pass(instance, nest, rows.columns, part)
    access, given = dict(nest.access), dict(nest.given)
    pointers: dict[str, Pointer] = {}
    tops: dict[str, str] = {}
    for name, axis in rows.slow.items():
        operand = instance.operand(access[name].operand)
        index, guards = access[name].index[axis].substitute(_unit_axes(nest)), access[name].guards
        ring = part.rings.get(operand.tensor, 0)
        steps = Index.axis(rows.axis) * index.coefficient(rows.axis)
        loops = [a for a in (index - steps).axes() if a != ROW]
        is_guarded = any(ROW in guard.index.axes() for guard in guards)
        is_shared = sum(a.operand == operand.name for a in access.values()) > 1
        is_apart = part.step > 1 and ring > 0 and not _is_together(index, ring, part.step)
        if not (loops or is_guarded or is_shared or is_apart) and ROW in index.axes():
            row = Pointer(operand.name, index.coefficient(ROW), index.constant)
            pointers[operand.name] = row
            access[name] = _with(access[name], axis, steps)
        elif ring:
            access[name] = _with(access[name], axis, _around(index, ring, nest))
        elif operand.tensor in part.fetched:
            top = f"{operand.name}_top"
            given[top], tops[top] = (0, access[name].view[axis] - 1), operand.tensor
            access[name] = _with(access[name], axis, index - Index.axis(top))
    sums = rows.parts.sums if rows.parts else ()
    made = replace(
        instance,
        nests=(replace(nest, access=access, given=given),),
        operands=(*operands, *sums),
    )
    return RowKernel(made, tuple(pointers.values()), origins, tops)


def _is_together(index: Index, ring: int, step: int) -> bool:
    """Tell whether rows that are computed at a time lie side by side in a ring."""
    return index.coefficient(ROW) == 1 and ring % step == 0 and index.constant % step == 0


def _added(instance: Instance, rows: Rows, part: Part) -> Nest:
    """Return the nest of all rows, or that adds them up: from nothing in the first of all calls."""
    (whole,) = instance.nests
    if rows.parts is None:
        return whole
    if not part.columns or rows.columns is None:
        return rows.parts.add
    start = Index.axis(rows.axis) + Index.axis(f"{rows.columns.axis}_first")
    parts = partial(whole, rows.axis, start)
    assert parts is not None, "it can be cut along the rows"
    return parts.add


def _in_pass(
    instance: Instance, nest: Nest, columns: Columns, part: Part
) -> tuple[Nest, tuple[Operand, ...], Mapping[str, str]]:
    """Return the nest of some columns, whose rings hold no more, and what its caller gives."""
    narrow = {
        name: part.widths[tensor]
        for name in columns.across
        for tensor in [instance.operand(nest.access[name].operand).tensor]
        if tensor in part.widths
    }
    roles = {name: instance.operand(nest.access[name].operand).role for name in narrow}
    local = [(name, columns.across[name]) for name in narrow if roles[name] == "input"]
    moved = shifted(nest, {columns.axis: part.columns}, local)
    access = dict(moved.access)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, width in narrow.items():
        axis = columns.across[name]
        found = access[name]
        index = found.index[axis] if roles[name] == "input" else Index.axis(columns.axis)
        view = (*found.view[:axis], width, *found.view[axis + 1 :])
        access[name] = replace(_with(found, axis, index), view=view)
        shapes[found.operand] = view
    operands = tuple(replace(o, shape=shapes.get(o.name, o.shape)) for o in instance.operands)
    origins = {
        f"{name}_first{axis}": instance.operand(nest.access[name].operand).tensor
        for name, axis in local
    }
    return replace(moved, access=access), operands, origins


def finish_instance(instance: Instance, rows: Rows) -> Instance:
    """Return the instance that makes the results of the sums of all rows."""
    assert rows.parts is not None, "the rows are of the output"
    return replace(
        instance,
        nests=(rows.parts.finish,),
        operands=(*instance.operands, *rows.parts.sums),
    )


def _unit_axes(nest: Nest) -> Mapping[str, Index]:
    """Return the only value of each axis that has one."""
    return {axis: Index() for axis, extent in nest.extent.items() if extent == 1}


def _with(access: Access, axis: int, index: Index) -> Access:
    parts = (*access.index[:axis], index, *access.index[axis + 1 :])
    return replace(access, index=parts)


def _around(index: Index, ring: int, nest: Nest) -> Index:
    """Return the place in a ring of a row, which may be one of the padding before the first."""
    box = {a: (0, e) for a, e in nest.extent.items()}
    box |= {name: (low, high + 1) for name, (low, high) in nest.given.items()}
    low, _ = index.interval(box)
    return (index + max(-(low // ring), 0) * ring) % ring


def activations(instance: Instance, constants: frozenset[str]) -> Iterator[Operand]:
    """Yield the operands that are activations."""
    for operand in instance.operands:
        if operand.role == "output" or (
            operand.role == "input" and operand.tensor not in constants
        ):
            yield operand
