"""Which operands a kernel takes."""

from collections.abc import Iterator
from dataclasses import replace

from dlbuild.rulebook.derive import step_values, used_by
from dlbuild.rulebook.handwritten import rest_of
from dlbuild.rulebook.instance import Instance, Nest, Operand
from dlbuild.rulebook.value import Offset, Read, walk


def read_operands(instance: Instance) -> tuple[Operand, ...]:
    """Return the operands that the kernel takes, in operand order; of an opaque rule all."""
    if instance.handwritten is not None:
        (nest,) = instance.nests
        rest = replace(instance, nests=(rest_of(nest, instance.handwritten),), handwritten=None)
        used = {o.name for o in read_operands(rest)} | set(instance.handwritten.uses)
        return tuple(o for o in instance.operands if o.name in used)
    used = {operand.name for operand in used_by(instance)}
    used.update(name for nest in instance.nests for name in _read_outside(nest))
    return tuple(o for o in instance.operands if o.name in used)


def _read_outside(nest: Nest) -> Iterator[str]:
    """Yield the operands that give the values of reads outside a tensor, and of offsets."""
    values = [value for step in nest.steps for value in step_values(step)]
    outside = [access.outside for access in nest.access.values()]
    values += [value for value in outside if not isinstance(value, str | None)]
    for value in values:
        for expr in walk(value):
            if isinstance(expr, Read | Offset):
                yield nest.access[expr.access].operand
