"""Which axes of tensors an operator goes through together, so that all can lose the same part.

A lane is one axis of one tensor. The lanes that one loop of an operator goes through are linked:
what is left out of one is left out of all.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from dlbuild.rulebook.derive import offset_accesses, told_axes
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance, Nest

Lane = tuple[str, int]
"""A tensor's name, and a number of its axes."""


@dataclass(frozen=True)
class Link:
    """The lanes that one loop of an operator goes through.

    axis: the loop. is_sum: it goes over what makes one result, not over results. lanes: of tensors
    that are computed. constants: of constants.
    """

    axis: str
    is_sum: bool
    lanes: frozenset[Lane]
    constants: frozenset[Lane]


def links_of(instance: Instance, constants: Collection[str]) -> tuple[list[Link], set[Lane]]:
    """Return the links of an operator, and the lanes of which it needs all.

    Args:
        instance: the operator, matched.
        constants: the graph's constants.
    """
    tensors = {o.tensor: o.shape for o in instance.operands if o.role in ("input", "output")}
    every = {(t, n) for t, shape in tensors.items() for n in range(len(shape))}
    if len(instance.nests) != 1:
        return [], every
    found: dict[str, set[Lane]] = {}
    stuck: set[Lane] = set()
    nests = [*instance.nests, *(made.nest for made in instance.made)]
    blocked = {axis for nest in nests for axis in _entangled(nest)}
    for nest in nests:
        for access in nest.access.values():
            operand = instance.operand(access.operand)
            if operand.role not in ("input", "output"):
                continue
            for number, index in enumerate(access.index):
                position = position_of(access, number, operand.shape)
                axis = single_axis(index, nest.extent)
                if access.view[number] == 1:
                    continue
                if axis is None or position is None:
                    blocked |= {a for a in index.axes() if nest.extent[a] > 1}
                    at = range(len(operand.shape)) if position is None else (position,)
                    stuck |= {(operand.tensor, n) for n in at}
                else:
                    found.setdefault(axis, set()).add((operand.tensor, position))
    [nest] = instance.nests
    links = []
    for axis in sorted(found.keys() - blocked):
        own = frozenset(lane for lane in found[axis] if lane[0] in constants)
        links.append(Link(axis, axis in nest.reduce, frozenset(found[axis]) - own, own))
    free = {lane for link in links for lane in (*link.lanes, *link.constants)}
    return links, (every - free) | stuck


def single_axis(index: Index, extent: Mapping[str, int]) -> str | None:
    """Return the loop that an index map is, None if it is anything else."""
    terms = [(a, f) for a, f in index.terms if not isinstance(a, str) or extent[a] > 1]
    match terms:
        case [(str(axis), 1)] if index.constant == 0:
            return axis
        case _:
            return None


def position_of(access: Access, number: int, shape: tuple[int, ...]) -> int | None:
    """Return which axis of a tensor an axis of an access' view is, None if it is no single one."""
    if access.view == shape:
        return number
    long = [n for n, extent in enumerate(shape) if extent > 1]
    viewed = [n for n, extent in enumerate(access.view) if extent > 1]
    if number not in viewed or [shape[n] for n in long] != [access.view[n] for n in viewed]:
        return None
    return long[viewed.index(number)]


def _entangled(nest: Nest) -> Iterator[str]:
    """Yield the loops whose number decides more than which elements are read and written."""
    yield from told_axes(nest.access, nest.steps)
    for access in offset_accesses(nest.steps):
        for index in nest.access[access].index:
            yield from index.axes()
