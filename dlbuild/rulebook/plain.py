"""Moves between shapes that differ in axes of one point only, as nests over the other axes."""

from dataclasses import replace
from math import prod

from dlbuild.rulebook.derive import View, view_of
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance, Loop, Nest, Operand, Store
from dlbuild.rulebook.value import COMPUTE_TYPE, Read


def plain(instance: Instance) -> Instance:
    """Return a copy of all elements axis by axis, if only axes of one point come or go.

    A rule may say it through a flat view, which holds the tensors to the model's own order;
    loops over the axes serve any order. Other instances are returned as they are.
    """
    if instance.role != "copy" or not isinstance(view := view_of(instance, {}), View):
        return instance
    source, output = instance.operand(view.source), instance.operand(view.output)
    longer = [n for n in output.shape if n > 1]
    is_same = [n for n in source.shape if n > 1] == longer
    if not is_same or prod(source.shape) != prod(output.shape):
        return instance
    names = tuple(f"i{k}" for k in range(len(longer)))
    access = {o.name: Access(o.name, o.shape, _over(names, o)) for o in (source, output)}
    value = Read(source.name, COMPUTE_TYPE[source.dtype])
    steps = (Loop((), stores=(Store(output.name, value),)),)
    extent = dict(zip(names, longer, strict=True))
    return replace(instance, nests=(Nest(names, (), extent, access, steps),))


def _over(names: tuple[str, ...], operand: Operand) -> tuple[Index, ...]:
    axes = iter(names)
    return tuple(Index.axis(next(axes)) if n > 1 else Index() for n in operand.shape)
