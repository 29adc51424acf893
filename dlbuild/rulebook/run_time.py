"""Results whose count only the run knows: their greatest extents, and what follows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlbuild.ir.graph import Graph, Op
from dlbuild.rulebook.bind import Unfit, bind, conclude, size
from dlbuild.rulebook.index import Atom, Index, Loaded
from dlbuild.rulebook.instance import Instance, Nest, Operand
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.rule import OpRule


@dataclass(frozen=True, slots=True)
class Greatest:
    """A result's greatest extents. axis: whose extent only the run knows; None = all are known."""

    shape: tuple[int, ...]
    axis: int | None


def has_count(op: Op, book: RuleBook) -> bool:
    """Say whether an operator's results have a count that only the run knows."""
    return any(rule.run_time for rule in book.rules_for(op.domain, op.kind))


def greatest(op: Op, graph: Graph, book: RuleBook) -> Mapping[int, Greatest]:
    """Return the greatest extents of an operator's results, by their positions in its rule.

    The last position is that of the count itself, a scalar. No result of the operator need be in
    the graph.

    Raises:
        Unfit: no rule fits; the text is the last one's reason.
    """
    reason = Unfit("there is no rule for it")
    for rule in book.rules_for(op.domain, op.kind):
        try:
            return _greatest(rule, op, graph)
        except Unfit as fault:
            reason = fault
    raise reason


def _greatest(rule: OpRule, op: Op, graph: Graph) -> Mapping[int, Greatest]:
    binding = bind(rule, op, graph, with_outputs=False)
    conclude(binding, rule.lets)
    found: dict[int, Greatest] = {}
    for position, spec in enumerate(rule.outputs[:-1]):
        said = rule.run_time[spec.name]
        shape = size(said.most, binding.names)
        axis = None if said.axis is None else size(said.axis, binding.names)
        extents = shape if isinstance(shape, tuple) else (shape,)
        found[position] = Greatest(
            tuple(int(extent) for extent in extents if isinstance(extent, int)),
            axis if isinstance(axis, int) else None,
        )
    found[len(rule.outputs) - 1] = Greatest((), None)
    return found


def followers(
    instance: Instance, tensor: str, axis: int, alike: Collection[str]
) -> Mapping[str, int] | None:
    """Return the results of which a slice on one axis is computed from that slice of `tensor`.

    Args:
        instance: what reads the tensor.
        tensor: the graph's name.
        axis: the tensor's axis whose extent only the run knows.
        alike: the tensors that have the same count, this one among them.

    Returns:
        For each result that depends on it the axis; None if one needs more than its slice, since
        what lies behind the last slice is no part of the tensor, or slices of a tensor without
        the count, which ONNX would spread over one slice or one over it.
    """
    if not instance.nests:
        return None
    found: dict[str, int] = {}
    operands = {operand.name: operand for operand in instance.operands}
    for nest in instance.nests:
        loops = set(_loops(nest, operands, tensor, axis))
        if not loops:
            continue
        if len(loops) != 1 or "" in loops:
            return None
        (loop,) = loops
        for access in nest.access.values():
            written = operands[access.operand]
            if written.role != "output":
                if written.tensor not in alike and loop in _direct(access.index):
                    return None
                continue
            at = _axis(access.index, loop)
            if at is None or access.view != written.shape:
                return None
            if written.shape[at] != nest.extent[loop]:
                return None
            found[written.tensor] = at
    return found


def _loops(nest: Nest, operands: Mapping[str, Operand], tensor: str, axis: int) -> Iterator[str]:
    """Yield for each read of the tensor the loop that walks along the axis, empty if none does."""
    for access in nest.access.values():
        read = operands[access.operand]
        if read.tensor == tensor:
            is_plain = access.view == read.shape and not access.guards
            yield _loop(nest, access.index, read.shape, axis) if is_plain else ""
        for atom in _loaded(access.index):
            read = operands[atom.operand]
            if read.tensor == tensor:
                yield _loop(nest, atom.at, read.shape, axis)


def _loop(nest: Nest, index: Sequence[Index], shape: Sequence[int], axis: int) -> str:
    """Return the loop that alone walks along all of an axis, empty if there is none."""
    for loop in nest.domain:
        if _axis(index, loop) == axis and nest.extent[loop] == shape[axis]:
            return loop
    return ""


def _axis(index: Sequence[Index], loop: str) -> int | None:
    """Return the one axis along which a loop walks step by step."""
    axes = [at for at, part in enumerate(index) if loop in part.axes()]
    is_one = len(axes) == 1 and index[axes[0]] == Index.axis(loop)
    return axes[0] if is_one else None


def _direct(index: Sequence[Index]) -> Iterator[str]:
    """Yield the loops that an index depends on other than through what a tensor holds."""
    for part in index:
        for atom, _ in part.terms:
            if isinstance(atom, str):
                yield atom
            elif not isinstance(atom, Loaded):
                yield from _direct((atom.of,))


def _loaded(index: Sequence[Index]) -> Iterator[Loaded]:
    for part in index:
        for atom, _ in part.terms:
            yield from _inner(atom)


def _inner(atom: Atom) -> Iterator[Loaded]:
    if isinstance(atom, Loaded):
        yield atom
        yield from _loaded(atom.at)
    elif not isinstance(atom, str):
        yield from _loaded((atom.of,))
