"""What the tasks of a kernel would touch, for each way to cut it: derived from its index maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.address import view_strides
from dlbuild.rulebook.derive import (
    carried_axes,
    loaded_operands,
    offset_accesses,
    parallel_axes,
    splittable_axes,
    step_reads,
    step_values,
    used_operands,
)
from dlbuild.rulebook.index import Index, Quotient, Remainder
from dlbuild.rulebook.instance import Access, Instance, Nest, Operand
from dlbuild.rulebook.rule import NEST_TEMPLATE
from dlbuild.rulebook.value import Position, walk

Ranges = Mapping[str, tuple[int, int]]
"""A half-open range for each loop axis."""

Window = tuple[tuple[int, int], ...]
"""A half-open range for each axis of a view."""

MOST_SIZES, FEWER_SIZES = 24, 14
"""So many sizes are tried for an axis, fewer if all MOST_AXES may be cut; of more, as many evenly
chosen ones."""

MOST_AXES = 5
"""A kernel of more axes that may be cut is cut along the longest of them."""

SUM_BYTES: Mapping[str, int] = {"i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


@dataclass(frozen=True)
class Moved:
    """An operand whose windows are brought to the near memory, or leave it.

    view, pitch: its extents and the elements from one index to the next in the far memory.
    """

    operand: Operand
    view: tuple[int, ...]
    pitch: tuple[int, ...]
    accesses: tuple[Access, ...]
    is_whole: bool

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return DTYPES[self.operand.dtype].bits // 8

    @property
    def is_output(self) -> bool:
        """Whether it leaves the near memory."""
        return self.operand.role == "output"

    def axes(self, axis: int) -> frozenset[str]:
        """Return the loop axes that the window of one axis of the view depends on."""
        if self.is_whole:
            return frozenset()
        return frozenset(a for access in self.accesses for a in access.index[axis].axes())

    def window(self, box: Ranges) -> Window:
        """Return what a task over `box` touches."""
        return window(self, box)


@dataclass(frozen=True, slots=True)
class ByHand:
    """How a hand-written kernel computes tasks.

    form: in which. cost: how long that takes over the usual one. is_by_rows: it is called for one
    row after the other. blocks: the axis of the channels of which a task may have a part, or empty;
    compact: tensors of which such a part has to lie in a window of its own; windows: numbers that
    are made ready for each such part, of all points.
    """

    form: int = 0
    cost: float = 1.0
    is_by_rows: bool = False
    blocks: str = ""
    compact: frozenset[str] = frozenset()
    windows: int = 0


@dataclass(frozen=True)
class TileSpace:
    """The ways to cut one nest.

    axes: what may be cut, domain axes first. sizes: what is tried for each.
    reduce: how many of them, at the end, are loops inside a result, cut into partial sums.
    sum_bytes: of the partial results of one point of the domain.
    points: points of the domain over axes that are never cut.
    hand: how a hand-written kernel computes it, with `scratch` in the near memory; None = loops do.
    """

    nest: Nest
    axes: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]
    reduce: int
    sum_bytes: int
    points: int
    moved: tuple[Moved, ...]
    scratch: tuple[Operand, ...] = ()
    hand: ByHand | None = None

    def cuts(self, moved: Moved) -> frozenset[int]:
        """Return the numbers of the axes on which an operand's window depends."""
        axes = frozenset().union(*(moved.axes(axis) for axis in range(len(moved.view))))
        return frozenset(number for number, name in enumerate(self.axes) if name in axes)

    def without(self, tensors: Iterable[str]) -> TileSpace:
        """Return the same ways where some tensors need not be moved."""
        names = set(tensors)
        moved = tuple(m for m in self.moved if m.operand.tensor not in names)
        sizes = self.sizes
        if self.hand and self.hand.compact & names:
            pairs = zip(self.axes, sizes, strict=True)
            sizes = tuple(s[-1:] if axis == self.hand.blocks else s for axis, s in pairs)
        return replace(self, moved=moved, sizes=sizes)

    def keeping(self, operands: Iterable[str]) -> TileSpace:
        """Return the same ways where only some operands are moved."""
        names = set(operands)
        return replace(self, moved=tuple(m for m in self.moved if m.operand.name in names))

    @property
    def extents(self) -> tuple[int, ...]:
        """The whole extent of each axis."""
        return tuple(self.nest.extent[a] for a in self.axes)


def tile_space(
    instance: Instance, orders: Mapping[str, tuple[int, ...]], in_table: frozenset[str]
) -> TileSpace | None:
    """Return how a kernel may be cut, None if its operands cannot be moved window by window.

    Args:
        instance: the kernel.
        orders: axis order in memory of each operand.
        in_table: operands in the weight table; those of one number are passed by value.
    """
    if len(instance.nests) != 1 or instance.template not in ("", NEST_TEMPLATE):
        return None
    (nest,) = instance.nests
    names = [
        o
        for o in map(instance.operand, used_operands(nest))
        if not (o.name in in_table and prod(o.shape) == 1)
    ]
    found = [moved_of(o, nest, orders) for o in names]
    if any(entry is None for entry in found) or not is_plain(nest):
        return None
    shared = [entry for entry in found if entry is not None]
    domain, reduce = _axes(nest, shared)
    axes = (*domain, *reduce)
    most = MOST_SIZES if len(axes) < MOST_AXES else FEWER_SIZES
    sizes = tuple(_sizes(nest.extent[a], _border(nest, a), most) for a in axes)
    return TileSpace(
        nest=nest,
        axes=axes,
        sizes=sizes,
        reduce=len(reduce),
        sum_bytes=sum(SUM_BYTES.get(f.type, 4) for s in nest.steps for f in s.folds),
        points=prod(nest.extent[a] for a in nest.domain if a not in domain),
        moved=tuple(shared),
    )


def window(moved: Moved, box: Ranges, axes: Sequence[int] | None = None) -> Window:
    """Return the part of an operand's view, or of some axes, that is touched over `box`."""
    shown = range(len(moved.view)) if axes is None else axes
    if moved.is_whole:
        return tuple((0, moved.view[axis]) for axis in shown)
    found: list[tuple[int, int]] = []
    for axis in shown:
        extent = moved.view[axis]
        bounds = [access.index[axis].interval(box) for access in moved.accesses]
        # Of a window that is all padding one element stays, which nobody reads.
        first = min(max(min(low for low, _ in bounds), 0), extent - 1)
        last = min(max(high for _, high in bounds) + 1, extent)
        found.append((first, max(last, first + 1)))
    return tuple(found)


def divided(extent: int) -> tuple[int, ...]:
    """Return the sizes that cut an extent into 1, 2, 3 ... nearly equal parts."""
    return tuple(sorted({-(-extent // parts) for parts in range(1, extent + 1)}))


def _sizes(extent: int, border: int, most: int) -> tuple[int, ...]:
    """Return the sizes to try; with a border, such that no part crosses a multiple of it."""
    found = [s for s in divided(extent) if s % border == 0 or border % s == 0]
    found = sorted({*found, extent, *(n for n in range(border, extent, border) if border > 1)})
    return evenly(found, most)


def evenly(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    """Return all sizes, or if these are too many, as many evenly chosen ones."""
    if len(sizes) <= most:
        return tuple(sizes)
    step = (len(sizes) - 1) / (most - 1)
    return tuple(dict.fromkeys(sizes[round(number * step)] for number in range(most)))


def moved_of(operand: Operand, nest: Nest, orders: Mapping[str, tuple[int, ...]]) -> Moved | None:
    """Return an operand before its windows are counted, None if it has none."""
    if DTYPES[operand.dtype].bits % 8 or prod(operand.shape) == 0:
        return None
    accesses = tuple(a for a in nest.access.values() if a.operand == operand.name)
    is_loaded = operand.name in loaded_operands(nest)
    views = {a.view for a in accesses}
    view = operand.shape if is_loaded or len(views) != 1 else next(iter(views))
    pitch = view_strides(view, operand.shape, orders.get(operand.name, ()))
    if pitch is None or (len(views) > 1 and operand.role == "output"):
        return None
    is_whole = is_loaded or len(views) != 1 or not view
    return Moved(operand, view or (1,), pitch or (1,), accesses, is_whole)


def is_plain(nest: Nest) -> bool:
    """Tell whether tasks can be told apart: each writes all of its window and nothing else.

    A guard must be about the element that is read, so that a window keeps its truth.
    """
    for step in nest.steps:
        reads = [nest.access[name] for name in step_reads(step)]
        is_partial = bool(step.when) or any(a.outside == "skip" for a in reads)
        if step.stores and is_partial:
            return False
        if not all(_is_dense(nest.access[s.access], nest) for s in step.stores):
            return False
    return all(
        any(guard == (index, extent) for index, extent in zip(a.index, a.view, strict=True))
        for a in nest.access.values()
        for guard in ((g.index, g.extent) for g in a.guards)
    )


def _is_dense(access: Access, nest: Nest) -> bool:
    """Tell whether what is written has no gaps: each axis of the output is an axis of the loops."""
    if access.guards:
        return False
    for index in access.index:
        moving = [(a, f) for a, f in index.terms if not isinstance(a, str) or nest.extent[a] > 1]
        if len(moving) > 1 or any(not isinstance(a, str) or f != 1 for a, f in moving):
            return False
    return True


def _axes(nest: Nest, moved: Sequence[Moved]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the domain axes and the reduction axes that may be cut."""
    pinned = set(_pinned(nest)) | set(carried_axes(nest))
    domain = domain_axes(nest)
    conditions = {
        a for step in nest.steps for c in step.when for a in (*c.left.axes(), *c.right.axes())
    }
    reduce = [
        a
        for a in splittable_axes(nest)
        if a not in pinned | conditions and not _is_sliding(a, nest, moved)
    ]
    by_extent = sorted((*domain, *reduce), key=lambda a: -nest.extent[a])[:MOST_AXES]
    return (
        tuple(a for a in domain if a in by_extent),
        tuple(a for a in reduce if a in by_extent),
    )


def domain_axes(nest: Nest) -> tuple[str, ...]:
    """Return the axes of the domain that may be cut: each task then writes results of its own."""
    pinned = set(_pinned(nest)) | set(carried_axes(nest))
    written = [nest.access[s.access] for step in nest.steps for s in step.stores]
    told = [{a for index in access.index for a in index.axes()} for access in written]
    return tuple(
        a for a in parallel_axes(nest) if a not in pinned and all(a in axes for axes in told)
    )


def _is_sliding(axis: str, nest: Nest, moved: Sequence[Moved]) -> bool:
    """Tell whether the axis moves a window that another axis moves too: its parts overlap."""
    return any(
        axis in index.axes() and any(nest.extent[a] > 1 and a != axis for a in _affine(index))
        for entry in moved
        for access in entry.accesses
        for index in access.index
    )


def _affine(index: Index) -> Iterator[str]:
    yield from (atom for atom, _ in index.terms if isinstance(atom, str))


def _indices(nest: Nest) -> Iterator[Index]:
    for access in nest.access.values():
        yield from access.index
    for step in nest.steps:
        for condition in step.when:
            yield from (condition.left, condition.right)
        for value in step_values(step):
            yield from (e.index for e in walk(value) if isinstance(e, Position))


def _pinned(nest: Nest) -> Iterator[str]:
    """Yield the axes that other forms than sums, `//` and `%` depend on, or whose number counts."""
    for index in _indices(nest):
        for atom, _ in index.terms:
            if isinstance(atom, str):
                continue
            if not isinstance(atom, Quotient | Remainder) or list(atom.of.entangled_axes()):
                yield from Index.atom(atom).axes()
    for access in offset_accesses(nest.steps):
        for index in nest.access[access].index:
            yield from index.axes()


def _border(nest: Nest, axis: str) -> int:
    """Return the block of an axis that `//` or `%` sees: a cut inside or along it is plain."""
    blocks = {
        atom.by
        for index in _indices(nest)
        for atom, _ in index.terms
        if isinstance(atom, Quotient | Remainder) and axis in atom.of.axes()
    }
    return max(blocks, default=1)


def pieces(extent: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges that cut an extent into parts of `size`, the last one as it comes."""
    return [(first, min(first + size, extent)) for first in range(0, extent, size)]


def compulsory_bytes(space: TileSpace) -> int:
    """Return the bytes that any cut moves: each element that is touched, once."""
    total = 0
    for moved in space.moved:
        count = prod(_touched(moved, axis, space.nest) for axis in range(len(moved.view)))
        total += moved.element_bytes * count
    return total


def _touched(moved: Moved, axis: int, nest: Nest) -> int:
    """Return how many numbers of an axis are touched."""
    extent = moved.view[axis]
    found: set[int] = set()
    for access in () if moved.is_whole else moved.accesses:
        index = access.index[axis]
        if list(index.entangled_axes()):
            break
        values = {index.constant}
        for atom, factor in index.terms:
            assert isinstance(atom, str), "there is no other form"
            values = {v + factor * at for v in values for at in range(nest.extent[atom])}
        found |= {v for v in values if 0 <= v < extent}
    else:
        return extent if moved.is_whole else len(found)
    first, last = window(moved, {a: (0, n) for a, n in nest.extent.items()})[axis]
    return last - first
