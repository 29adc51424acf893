"""What tasks of a hand-written kernel would touch: all at once, or row after row, or some channels.

Its packed constants are moved in the place of the weights that they are made of, and its working
memory lies in the near memory too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.rulebook.address import strides
from dlbuild.rulebook.handwritten import packed_access, spanning, with_kernel
from dlbuild.rulebook.instance import Blocks, Instance, Nest, Operand
from dlbuild.rulebook.kernels import orders_of
from dlbuild.rulebook.operands import read_operands
from dlbuild.rulebook.rows import Rows, rows_of
from dlbuild.stages.forms import POINTS
from dlbuild.stages.tile_space import (
    MOST_SIZES,
    ByHand,
    Moved,
    TileSpace,
    divided,
    domain_axes,
    evenly,
    is_plain,
    moved_of,
)


def hand_spaces(
    kernel: Kernel, instance: Instance, graph: Graph, profile: Profile
) -> Iterator[TileSpace]:
    """Yield the ways to run a kernel's hand-written code on what lies in a near memory.

    In each of its forms, the usual one first: on all rows at once, then row after row.

    instance: as its rule gives it, without the operands of the hand-written kernel.
    """
    found, by_hand = kernel.handwriting, instance.handwritten
    if found is None or found.obstacle or by_hand is None:
        return
    for form in range(len(by_hand.forms)):
        own = with_kernel(instance, form)
        for is_by_rows in (False, True):
            space = hand_space(kernel, own, graph, profile, form, is_by_rows=is_by_rows)
            if space is not None:
                yield space


def hand_space(  # noqa: PLR0913 - the inputs of the stage, and two choices
    kernel: Kernel,
    instance: Instance,
    graph: Graph,
    profile: Profile,
    form: int,
    *,
    is_by_rows: bool,
) -> TileSpace | None:
    """Return how tasks may be cut that the hand-written kernel computes, None if it cannot be.

    Args:
        kernel: a kernel of the profile.
        instance: with the operands of the hand-written kernel.
        graph: the model.
        profile: of it.
        form: in which the hand-written kernel goes.
        is_by_rows: it is called for one row after the other, else once for a task.
    """
    (nest,) = instance.nests
    orders, constants = orders_of(kernel, instance, profile), frozenset(graph.constants)
    operands = tuple(_touched(instance, constants))
    rows = rows_by_hand(instance, orders, constants) if is_by_rows else None
    if is_by_rows and rows is None:
        return None
    blocks = _blocks(instance, operands)
    sizes = _sizes(nest, rows, instance, blocks)
    nest = _spanning(nest, sizes, operands if blocks else ())
    moved = [_moved(operand, nest, orders, blocks, is_cut=bool(sizes)) for operand in operands]
    if any(entry is None for entry in moved):
        return None
    return TileSpace(
        nest=nest,
        axes=tuple(sizes),
        sizes=tuple(sizes.values()),
        reduce=0,
        sum_bytes=0,
        points=prod(nest.extent[axis] for axis in nest.domain if axis not in sizes),
        moved=tuple(entry for entry in moved if entry is not None),
        scratch=tuple(_rooms(instance, form, is_by_rows=is_by_rows)),
        hand=_by_hand(instance, form, moved, blocks, is_by_rows=is_by_rows),
    )


def _rooms(instance: Instance, form: int, *, is_by_rows: bool) -> Iterator[Operand]:
    """Yield the working memory of a form, if it has any."""
    assert instance.handwritten is not None
    found = instance.handwritten.forms[form]
    count = found.count_of(0) if is_by_rows else found.count
    for operand in instance.operands:
        if operand.role == "scratch" and count:
            yield replace(operand, shape=(count,))


def _spanning(nest: Nest, axes: Iterable[str], operands: Iterable[Operand]) -> Nest:
    """Return a nest whose maps tell what a template needs, cut along these axes.

    operands: those among which packed constants get an axis of their own.
    """
    extent = dict(nest.extent)
    extent |= {r: n for o in operands if (found := _rest(o, nest)) for r, n in [found]}
    cut = tuple(axes)
    access = {name: spanning(found, cut, extent) for name, found in nest.access.items()}
    return replace(nest, access=access, extent=extent)


def rows_by_hand(
    instance: Instance, orders: Mapping[str, tuple[int, ...]], constants: frozenset[str]
) -> Rows | None:
    """Return how a hand-written kernel is called row by row, None if it cannot be.

    constants: the tensors that are no activations.
    """
    assert instance.handwritten is not None
    rows = rows_of(instance, orders, constants)
    is_known = rows is not None and not rows.parts and rows.axis in instance.handwritten.rows
    return rows if is_known else None


def is_stack(rows: Rows) -> bool:
    """Say whether rows are of one point each: then all rows of a task are computed at once."""
    return rows.points == 1


def _touched(instance: Instance, constants: frozenset[str]) -> Iterator[Operand]:
    """Yield the operands in memory that the kernel touches, its working memory left out."""
    used = {operand.name for operand in read_operands(instance)}
    for operand in instance.operands:
        is_read = operand.name in used and operand.role != "scratch"
        in_table = operand.role == "constant" or operand.tensor in constants
        is_number = in_table and prod(operand.shape) == 1
        if operand.role == "output" or (is_read and not is_number):
            yield operand


def _blocks(instance: Instance, operands: Sequence[Operand]) -> Blocks | None:
    """Return the channels of which tasks may have a part, None if they cannot be cut."""
    (nest,) = instance.nests
    assert instance.handwritten is not None
    blocks = instance.handwritten.blocks
    if blocks is None or not is_plain(nest) or blocks.axis not in domain_axes(nest):
        return None
    extent = nest.extent[blocks.axis]
    read = {access.operand for access in nest.access.values()}
    firsts = [o.shape[0] for o in operands if o.name not in read]
    is_even = all(extent % n == 0 and blocks.of % (extent // n) == 0 for n in firsts)
    return blocks if is_even and extent % blocks.of == 0 else None


def _sizes(
    nest: Nest, rows: Rows | None, instance: Instance, blocks: Blocks | None
) -> Mapping[str, tuple[int, ...]]:
    """Return the axes that may be cut, and the sizes to try of each."""
    found: dict[str, tuple[int, ...]] = {}
    by_hand = instance.handwritten
    assert by_hand is not None
    axes = domain_axes(nest) if is_plain(nest) else ()
    if blocks:
        extent = nest.extent[blocks.axis]
        found[blocks.axis] = tuple(
            n for n in range(blocks.of, extent + 1, blocks.of) if extent % n == 0
        )
    if rows:
        found[rows.axis] = divided(rows.count)
        columns = None if is_stack(rows) else rows.columns
        if columns and columns.axis in by_hand.columns:
            least = min(POINTS, columns.count)
            found[columns.axis] = tuple(n for n in divided(columns.count) if n >= least)
    return {axis: evenly(found[axis], MOST_SIZES) for axis in axes if axis in found}


def _rest(operand: Operand, nest: Nest) -> tuple[str, int] | None:
    """Return the axis along which a block of a packed constant lies, and its extent."""
    if any(access.operand == operand.name for access in nest.access.values()):
        return None
    count = prod(operand.shape[1:])
    return (f"{operand.name} of a block", count) if count > 1 else None


def _moved(
    operand: Operand,
    nest: Nest,
    orders: Mapping[str, tuple[int, ...]],
    blocks: Blocks | None,
    *,
    is_cut: bool,
) -> Moved | None:
    """Return an operand, and how its windows follow from tasks; None if they cannot."""
    order = orders.get(operand.name, ()) or tuple(range(len(operand.shape)))
    is_packed = all(access.operand != operand.name for access in nest.access.values())
    if not is_cut or (is_packed and not blocks):
        return Moved(operand, operand.shape, strides(operand.shape, order), (), is_whole=True)
    if not is_packed:
        return moved_of(operand, nest, orders)
    assert blocks
    rest = _rest(operand, nest)
    access = packed_access(operand, blocks, nest.extent[blocks.axis], rest[0] if rest else "")
    return Moved(operand, access.view, strides(access.view), (access,), is_whole=False)


def _by_hand(
    instance: Instance,
    form: int,
    moved: Sequence[Moved | None],
    blocks: Blocks | None,
    *,
    is_by_rows: bool,
) -> ByHand:
    """Return how tasks are computed, and which tensors need windows of their own for that.

    The template takes the channels of a point to lie behind those of the point before.
    """
    assert instance.handwritten is not None
    compact = frozenset(
        entry.operand.tensor
        for entry in moved
        if blocks and entry and entry.operand.name in instance.handwritten.uses
        if any(blocks.axis in entry.axes(axis) for axis in range(len(entry.view)))
    )
    cost = instance.handwritten.forms[form].cost_of(0)
    windows = _windows(instance, form, blocks)
    return ByHand(form, cost, is_by_rows, blocks.axis if blocks else "", compact, windows)


def _windows(instance: Instance, form: int, blocks: Blocks | None) -> int:
    """Return how many numbers are made ready in working memory for each block of channels.

    Those of the window of each point, if all channels are made of the same ones.
    """
    (nest,) = instance.nests
    assert instance.handwritten is not None
    if blocks is None or not instance.handwritten.forms[form].count:
        return 0
    axes = [
        {axis for index in access.index for axis in index.axes()}
        for access in nest.access.values()
        if access.operand in instance.handwritten.uses
    ]
    is_shared = any(found & set(nest.reduce) and blocks.axis not in found for found in axes)
    points = prod(nest.extent[axis] for axis in (*nest.domain, *nest.reduce))
    return points // nest.extent[blocks.axis] if is_shared else 0
