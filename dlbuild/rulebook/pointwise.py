"""Element-wise instances: one statement for each point, and the point that belongs to another."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.derive import loaded_operands, offset_accesses, step_reads, step_values
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance, Let, Nest, Operand
from dlbuild.rulebook.range import fits
from dlbuild.rulebook.value import Expr, Lookup, Offset, Read, walk

_NARROWEST_COMPUTED_BITS = 32


class NoFusion(Exception):  # noqa: N818 - an answer, not a fault
    """The two cannot be one; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Pointwise:
    """What an element-wise instance computes for one point. `reads`: accesses in order of use."""

    nest: Nest
    write: Access
    output: Operand
    lets: tuple[Let, ...]
    value: Expr
    reads: tuple[str, ...]


def pointwise(instance: Instance) -> Pointwise:
    """Return the one statement of an element-wise instance.

    Raises:
        NoFusion: it has loops, folds, conditions, or reads that may not happen.
    """
    if len(instance.nests) != 1 or len(instance.nests[0].steps) != 1:
        raise NoFusion(f"{instance.kind} is not one step")
    (nest,) = instance.nests
    (step,) = nest.steps
    if step.over or step.folds or step.when or len(step.stores) != 1:
        raise NoFusion(f"{instance.kind} is not element-wise")
    (store,) = step.stores
    write = nest.access[store.access]
    named = {e.access for v in step_values(step) for e in walk(v) if isinstance(e, Offset | Lookup)}
    reads = tuple(dict.fromkeys((*step_reads(step), *(n for n in nest.access if n in named))))
    if any(nest.access[n].guards for n in (*reads, store.access)):
        raise NoFusion(f"{instance.kind} touches elements that may not exist")
    output = instance.operand(write.operand)
    return Pointwise(nest, write, output, step.lets, store.value, reads)


def inputs_named(tensor: str, instance: Instance) -> tuple[str, ...]:
    """Return the input operands that are a tensor."""
    return tuple(o.name for o in instance.operands if o.tensor == tensor and o.role == "input")


def reads_of(tensor: str, instance: Instance, nest: Nest) -> frozenset[str]:
    """Return the accesses through which a nest reads a tensor.

    Raises:
        NoFusion: the tensor decides an address, or the place of its elements is asked for.
    """
    names = inputs_named(tensor, instance)
    if loaded_operands(nest) & set(names):
        raise NoFusion(f"{instance.kind} uses the tensor as an index")
    if any(nest.access[a].operand in names for a in offset_accesses(nest.steps)):
        raise NoFusion(f"{instance.kind} uses the place of an element of the tensor")
    read = {r for step in nest.steps for r in step_reads(step)}
    return frozenset(a for a in read if nest.access[a].operand in names)


def count_reads(value: Expr, accesses: frozenset[str]) -> int:
    """Return how often an expression reads one of the accesses."""
    return sum(isinstance(e, Read) and e.access in accesses for e in walk(value))


def check_storage(value: Expr, dtype: str, instance: Instance, nest: Nest) -> None:
    """Check that a value that is not stored stays what it would be after a store and a load.

    Raises:
        NoFusion: the element type is narrower than the type computed in.
    """
    kind = DTYPES[dtype].kind
    if kind == "bool" or DTYPES[dtype].bits >= _NARROWEST_COMPUTED_BITS:
        return
    if kind == "float":
        raise NoFusion(f"storing the tensor rounds it to {dtype}")
    if not fits(value, dtype, instance, nest):
        raise NoFusion(f"a value between {instance.kind} and the next may not fit {dtype}")


def matching_axes(target: Access, access: Access, nest: Nest) -> Mapping[str, Index]:
    """Return a map for each axis of `nest`, such that its `access` is the element `target`.

    The two may see the tensor with other axes of one point.

    Raises:
        NoFusion: an axis of `access` is not a loop of its own, or the shapes do not correspond.
    """
    ours = [(i, n) for i, n in zip(target.index, target.view, strict=True) if n != 1]
    theirs = [(i, n) for i, n in zip(access.index, access.view, strict=True) if n != 1]
    if [n for _, n in ours] != [n for _, n in theirs]:
        raise NoFusion("the shapes do not correspond")
    axes = {a: Index() for a in nest.domain if nest.extent[a] == 1}
    for (index, extent), (axis, _) in zip(ours, theirs, strict=True):
        name = _only_axis(axis.substitute(axes))
        if name is None or name in axes or nest.extent[name] != extent:
            raise NoFusion("an axis of the element-wise nest is not a loop of its own")
        axes[name] = index
    if set(axes) != set(nest.domain):
        raise NoFusion("an axis of the element-wise nest does not appear where it writes")
    return axes


def _only_axis(index: Index) -> str | None:
    if len(index.terms) != 1 or index.constant:
        return None
    ((atom, factor),) = index.terms
    return atom if isinstance(atom, str) and factor == 1 else None
