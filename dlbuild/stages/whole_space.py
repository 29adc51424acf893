"""What a hand-written kernel in a near memory touches: all of its operands, in one task."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.rulebook.address import strides
from dlbuild.rulebook.handwritten import with_kernel
from dlbuild.rulebook.instance import Instance, Operand
from dlbuild.rulebook.kernels import orders_of
from dlbuild.rulebook.operands import read_operands
from dlbuild.stages.tile_space import Moved, TileSpace


def whole_space(
    kernel: Kernel,
    instance: Instance,
    graph: Graph,
    profile: Profile,
    staying: frozenset[str] = frozenset(),
) -> TileSpace | None:
    """Return the only way to run a kernel's hand-written code on operands in a near memory, None
    if it has none: all of them are there, and its working memory.

    staying: tensors that lie in the near memory, which need not be moved.
    """
    if kernel.handwriting is None or kernel.handwriting.obstacle or instance.handwritten is None:
        return None
    whole = with_kernel(instance) if not _has_kernel(instance) else instance
    (nest,) = whole.nests
    orders = orders_of(kernel, whole, profile)
    used = {operand.name for operand in read_operands(whole)}
    constants = frozenset(graph.constants)
    found = TileSpace(
        nest=nest,
        axes=(),
        sizes=(),
        reduce=0,
        sum_bytes=0,
        points=prod(nest.extent[axis] for axis in nest.domain),
        moved=tuple(
            _moved(operand, orders)
            for operand in whole.operands
            if operand.role == "output" or (operand.name in used and operand.role != "scratch")
            if operand.role == "output" or not _is_number(operand, constants)
        ),
        scratch=tuple(o for o in whole.operands if o.role == "scratch"),
        is_handwritten=True,
    )
    return found.without(staying)


def _has_kernel(instance: Instance) -> bool:
    """Tell whether the operands of the hand-written kernel are among the instance's."""
    assert instance.handwritten is not None
    names = {operand.name for operand in instance.operands}
    return all(operand.name in names for operand in instance.handwritten.operands)


def _is_number(operand: Operand, constants: frozenset[str]) -> bool:
    """Tell whether an operand is passed by its value."""
    in_table = operand.role == "constant" or operand.tensor in constants
    return in_table and prod(operand.shape) == 1


def _moved(operand: Operand, orders: Mapping[str, tuple[int, ...]]) -> Moved:
    order = orders.get(operand.name, ()) or tuple(range(len(operand.shape)))
    return Moved(operand, operand.shape, strides(operand.shape, order), (), is_whole=True)
