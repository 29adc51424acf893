"""Hand-written kernels that compute one sample of a batch: what they compute, and where it lies.

Such a template knows no samples. It is printed for one of them, and called for each with pointers
to where that one begins in each operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.derive import loaded_operands, offset_accesses, told_axes
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance
from dlbuild.rulebook.rows import ROW


@dataclass(frozen=True)
class Sampled:
    """A kernel of several samples.

    one: the instance of a single one, the same for each. starts: of each operand that has samples
    where the first element of one is, by the axis of the samples and what the caller gives.
    """

    one: Instance
    starts: Mapping[str, Access]


def sampled(instance: Instance) -> Sampled | None:
    """Return a kernel as that of one sample, None if what a sample computes depends on its place.

    A kernel whose template computes all samples, or which has one, is returned as it is.
    """
    kernel = instance.handwritten
    assert kernel is not None
    if not kernel.samples:
        return Sampled(instance, {})
    (nest,) = instance.nests
    moving = {kernel.samples, ROW, *(f"{access.operand}_top" for access in nest.access.values())}
    told = {*told_axes(nest.access, nest.steps), *(a for step in nest.steps for a in step.over)}
    if moving & told or loaded_operands(nest) or any(offset_accesses(nest.steps)):
        return None
    starts: dict[str, Access] = {}
    access: dict[str, Access] = {}
    for name, found in nest.access.items():
        parts = [_split(index, moving) for index in found.index]
        start = replace(found, index=tuple(there for there, _ in parts), guards=(), outside=None)
        is_other = starts.setdefault(found.operand, start) != start
        if is_other or any(moving & set(rest.axes()) for _, rest in parts):
            return None
        access[name] = replace(found, index=tuple(rest for _, rest in parts))
    starts = {name: start for name, start in starts.items() if any(i.terms for i in start.index)}
    if any(DTYPES[instance.operand(name).dtype].bits % 8 for name in starts):
        return None
    one = replace(
        nest,
        domain=tuple(axis for axis in nest.domain if axis != kernel.samples),
        extent={axis: n for axis, n in nest.extent.items() if axis != kernel.samples},
        access=access,
        given={name: bound for name, bound in nest.given.items() if name not in moving},
        count={axis: name for axis, name in nest.count.items() if axis != kernel.samples},
    )
    return Sampled(replace(instance, nests=(one,)), starts)


def _split(index: Index, moving: set[str]) -> tuple[Index, Index]:
    """Return what an index has of the sample's place, and the rest."""
    there = tuple((a, c) for a, c in index.terms if set(Index.atom(a).axes()) <= moving)
    rest = tuple(term for term in index.terms if term not in there)
    return Index(there), Index(rest, index.constant)
