"""The kernel of one task: the same nest over windows that lie in the near memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.ir.tile_plan import NearBuffer, Tiling
from dlbuild.rulebook.address import strides
from dlbuild.rulebook.index import Bound, Index
from dlbuild.rulebook.instance import Access, Instance, Nest, Operand
from dlbuild.rulebook.tiles import partial, shifted
from dlbuild.stages.tile_space import Moved, TileSpace


@dataclass(frozen=True)
class NearKernel:
    """A kernel over windows, and how these lie.

    finish: with partial sums, what makes results of them.
    orders: axis order in memory of each operand that is moved.
    """

    compute: Instance
    finish: Instance | None
    orders: Mapping[str, tuple[int, ...]]


def near_kernel(
    instance: Instance, space: TileSpace, tiling: Tiling, orders: Mapping[str, tuple[int, ...]]
) -> NearKernel:
    """Return the kernel of one task of a tiling."""
    # A task sees the windows in the nearest memory alone, wherever they come from.
    tiling = replace(tiling, loops=tiling.parts, around=None)
    buffers = {buffer.operand: buffer for buffer in tiling.buffers}
    nests = [_in_tile(nest, space, tiling, buffers) for nest in _parts(space.nest, tiling)]
    operands = tuple(_operand(o, space, buffers) for o in instance.operands)
    named = {o.name for o in operands}
    sums = tuple(
        Operand(b.operand, b.operand, b.dtype, b.shape, "scratch")
        for b in tiling.buffers
        if b.operand not in named
    )
    near = dict(orders)
    near |= {m.operand.name: order_of(m) for m in space.moved if not m.is_whole}
    made = [replace(instance, operands=(*operands, *sums), nests=(n,), template="") for n in nests]
    return NearKernel(made[0], made[1] if len(made) > 1 else None, near)


def order_of(moved: Moved) -> tuple[int, ...]:
    """Return the axes of an operand's view as they lie in both memories, slowest first."""
    return tuple(sorted(range(len(moved.view)), key=lambda axis: -moved.pitch[axis]))


def near_pitch(moved: Moved, buffer: NearBuffer) -> tuple[int, ...]:
    """Return the elements from one index to the next in the near memory."""
    return strides(buffer.shape, order_of(moved))


def is_given(moved: Moved, axis: int, cut: Sequence[str]) -> bool:
    """Tell whether the caller says where a window begins: it is clipped, or its map not affine."""
    if not is_moving(moved, axis, cut):
        return False
    indices = [access.index[axis] for access in moved.accesses]
    guards = [g.index for access in moved.accesses for g in access.guards]
    slopes = {tuple(index.coefficient(a) for a in cut) for index in indices}
    entangled = any(set(index.entangled_axes()) & set(cut) for index in indices)
    is_falling = any(slope < 0 for slope in next(iter(slopes)))
    return entangled or is_falling or len(slopes) > 1 or any(index in guards for index in indices)


def is_moving(moved: Moved, axis: int, cut: Sequence[str]) -> bool:
    """Tell whether the window of an axis of an operand's view depends on the task."""
    return any(set(access.index[axis].axes()) & set(cut) for access in moved.accesses)


def _parts(nest: Nest, tiling: Tiling) -> tuple[Nest, ...]:
    if not tiling.reduction:
        return (nest,)
    start = sum((Index.axis(f"{axis}_first") for axis in tiling.reduction), Index())
    cut = partial(nest, tiling.reduction[0], start)
    assert cut is not None, "only axes that may be split are cut"
    return cut.add, cut.finish


def _operand(operand: Operand, space: TileSpace, buffers: Mapping[str, NearBuffer]) -> Operand:
    """Return an operand as the kernel of a task sees it: a window in the near memory."""
    moved = next((m for m in space.moved if m.operand.name == operand.name), None)
    if moved is None:
        return operand
    role = operand.role if operand.role == "output" else "input"
    shape = operand.shape if moved.is_whole else buffers[operand.name].shape
    return replace(operand, role=role, shape=shape, order=())


def _in_tile(
    nest: Nest, space: TileSpace, tiling: Tiling, buffers: Mapping[str, NearBuffer]
) -> Nest:
    """Return the nest of a task: axes count from its start, addresses from its windows."""
    sizes = {cut.axis: cut.size for cut in tiling.loops}
    even = {a for a, size in sizes.items() if nest.extent[a] % size == 0}
    begun = shifted(nest, sizes)
    given: dict[str, Bound] = {
        name: bound
        for name, bound in begun.given.items()
        if name not in {f"{axis}_count" for axis in even}
    }
    access = dict(begun.access)
    for name, found in access.items():
        moved = next((m for m in space.moved if m.operand.name == found.operand), None)
        if moved is not None and not moved.is_whole:
            access[name] = _local(found, moved, nest, sizes, given, buffers[found.operand])
        elif moved is None and found.operand in buffers:
            index = tuple(from_start(i, sizes) for i in found.index)
            access[name] = replace(found, index=index, view=buffers[found.operand].shape)
    count = {axis: name for axis, name in begun.count.items() if axis not in even}
    return replace(begun, access=access, given=given, count=count)


def _local(  # noqa: PLR0913, PLR0917 - all that an address depends on
    access: Access,
    moved: Moved,
    nest: Nest,
    sizes: Mapping[str, int],
    given: dict[str, Bound],
    buffer: NearBuffer,
) -> Access:
    """Return an access that counts from the start of its window. Adds names to `given`."""
    index = []
    for axis, part in enumerate(access.index):
        if is_given(moved, axis, tuple(sizes)):
            name = f"{moved.operand.name}_first{axis}"
            given[name] = (0, moved.view[axis] - 1)
            index.append(part - Index.axis(name))
        else:
            first = {a: (0, sizes.get(a, n)) for a, n in nest.extent.items()}
            index.append(from_start(part, sizes) - moved.window(first)[axis][0])
    return replace(access, index=tuple(index), view=buffer.shape)


def from_start(index: Index, sizes: Mapping[str, int]) -> Index:
    """Take the starts of the task out of a map."""
    for axis in sizes:
        start = Index.axis(f"{axis}_first")
        index = index - start * index.coefficient(f"{axis}_first")
    return index
