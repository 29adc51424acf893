"""How a part of one tensor decides parts of all others of an operator, from its index maps."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from dlbuild.rulebook.derive import step_values
from dlbuild.rulebook.index import Index, Loaded
from dlbuild.rulebook.instance import Instance, Nest, Operand
from dlbuild.rulebook.value import Offset, Position, walk

Flow = Mapping[str, int | None]
"""Of each tensor of an operator the axis that is cut in the same way, None = all of it is used."""


class NoFlow(Exception):  # noqa: N818 - not an error: the operator is treated in another way
    """An operator's results do not belong to parts of its operands; the text says why."""


def flow_of(instance: Instance, tensor: str, axis: int) -> Flow:
    """Return how all tensors of an operator are cut if an axis of one of them is.

    Raises:
        NoFlow: some result needs several parts, or what it is depends on where it lies.
    """
    if not instance.nests:
        raise NoFlow("it has a kernel of its own that computes all of its results")
    flow: dict[str, int | None] = {}
    for nest in instance.nests:
        for name, cut in _flow_of_nest(instance, nest, tensor, axis).items():
            if flow.setdefault(name, cut) != cut:
                raise NoFlow(f"it reads '{name}' both in parts and as a whole")
    extents = {o.shape[axis] for o in instance.operands if o.tensor == tensor}
    for operand in instance.operands:
        if operand.role == "output" and flow.get(operand.tensor) is None:
            raise NoFlow(f"'{operand.tensor}' is made of all parts together")
        if operand.role == "input" and operand.tensor not in flow:
            # Numbers that no step reads, such as zero points of zero: one for each slice.
            is_list = len(operand.shape) == 1 and operand.shape[0] in extents - {1}
            flow[operand.tensor] = 0 if is_list else None
    return flow


Addressed = tuple[Operand, tuple[int, ...], tuple[Index, ...]]
"""An operand, the shape under which it is seen, and an index for each of its axes."""


def _flow_of_nest(instance: Instance, nest: Nest, tensor: str, axis: int) -> Flow:
    loop = loop_of(instance, nest, tensor, axis)
    check_places(nest, loop)
    flow: dict[str, int | None] = {}
    for operand, view, places in addressed(instance, nest):
        cut = _cut(operand, view, places, loop, nest.extent[loop])
        for name, found in _named(instance, operand, cut).items():
            if flow.setdefault(name, found) != found:
                raise NoFlow(f"it reads '{name}' both in parts and as a whole")
    return flow


def loop_of(instance: Instance, nest: Nest, tensor: str, axis: int) -> str:
    """Return the loop over independent results that runs over an axis of a tensor."""
    for operand, view, places in addressed(instance, nest):
        if operand.tensor != tensor or operand.role not in ("input", "output"):
            continue
        for number, place in enumerate(places):
            if _axis_of(operand.shape, view, number) == axis and view[number] > 1:
                if place.constant or len(place.terms) != 1 or place.terms[0][1] != 1:
                    raise NoFlow(f"it reads '{tensor}' in windows along axis {axis}")
                (atom, _) = place.terms[0]
                if atom in nest.reduce:
                    raise NoFlow(f"it sums over axis {axis} of '{tensor}'")
                if isinstance(atom, str) and atom in nest.domain:
                    return atom
    raise NoFlow(f"it does not go along axis {axis} of '{tensor}' step by step")


def _cut(
    operand: Operand, view: Sequence[int], places: Sequence[Index], loop: str, extent: int
) -> int | None:
    cuts = []
    for number, place in enumerate(places):
        if loop not in place.axes():
            continue
        axis = _axis_of(operand.shape, view, number)
        if place.terms != ((loop, 1),) or place.constant or axis is None or view[number] != extent:
            raise NoFlow(f"each result needs several parts of '{operand.tensor}'")
        cuts.append(axis)
    if len(cuts) > 1:
        raise NoFlow(f"it reads a diagonal of '{operand.tensor}'")
    return cuts[0] if cuts else None


def _axis_of(shape: Sequence[int], view: Sequence[int], number: int) -> int | None:
    """Return the axis of a tensor that an axis of its view is."""
    for axis, extent in enumerate(shape):
        if extent == view[number] and prod(shape[:axis]) == prod(view[:number]):
            return axis
    return None


def addressed(instance: Instance, nest: Nest) -> Iterator[Addressed]:
    """Yield what a nest addresses, also what its indices look up; a loop of one turn is 0."""
    once = {axis: Index() for axis, extent in nest.extent.items() if extent == 1}
    for access in nest.access.values():
        places = tuple(place.substitute(once) for place in access.index)
        yield instance.operand(access.operand), access.view, places
        for place in places:
            yield from _loads(instance, place)


def _loads(instance: Instance, place: Index) -> Iterator[Addressed]:
    for atom, _ in place.terms:
        if isinstance(atom, Loaded):
            operand = instance.operand(atom.operand)
            yield operand, operand.shape, atom.at
            for inner in atom.at:
                yield from _loads(instance, inner)
        elif not isinstance(atom, str):
            yield from _loads(instance, atom.of)


def _named(instance: Instance, operand: Operand, cut: int | None) -> Flow:
    """Return the axis by the tensor; a constant that the build makes is of others."""
    if operand.role != "constant":
        return {operand.tensor: cut}
    flow: dict[str, int | None] = {}
    for made in instance.made:
        if made.operand != operand.name:
            continue
        loop = made.nest.domain[cut] if cut is not None else ""
        for source, view, places in addressed(instance, made.nest):
            if source.name != operand.name:
                found = _cut(source, view, places, loop, made.nest.extent[loop]) if loop else None
                flow.update(_named(instance, source, found))
    return flow


def check_places(nest: Nest, loop: str) -> None:
    """Refuse values that depend on where along the loop they are."""
    for step in nest.steps:
        indices = [index for c in step.when for index in (c.left, c.right)]
        for value in step_values(step):
            for expr in walk(value):
                if isinstance(expr, Offset):
                    raise NoFlow("its results depend on where they lie")
                if isinstance(expr, Position):
                    indices.append(expr.index)
        if any(loop in index.axes() for index in indices):
            raise NoFlow("its results depend on where they lie")


def flat_flow(instance: Instance, source: str, axis: int, firsts: Sequence[int]) -> tuple[int, int]:
    """Return the axis of the result and how many of its slices one of the source's is.

    Of an operator that gives all elements another shape, if its parts stay in one piece.

    Args:
        instance: the operator.
        source: the tensor that is cut.
        axis: where.
        firsts: where the parts begin.

    Raises:
        NoFlow: it is no such operator, or a part is no whole number of slices.
    """
    outputs = [o for o in instance.operands if o.role == "output"]
    reads = [o for o in instance.operands if o.role == "input" and o.tensor == source]
    is_one = len(reads) == len(outputs) == len(instance.nests) == 1
    if not is_one or instance.role != "copy" or prod(reads[0].shape) != prod(outputs[0].shape):
        raise NoFlow(f"it does not go along axis {axis} of '{source}' step by step")
    (given,), (output,) = reads, outputs
    inner = prod(given.shape[axis + 1 :])
    if prod(given.shape[:axis]) != 1 or _is_moved(instance):
        raise NoFlow(f"it takes the parts of '{source}' to pieces")
    longer = [number for number, extent in enumerate(output.shape) if extent > 1]
    found = longer[0] if longer else 0
    slice_elements = prod(output.shape[found + 1 :])
    if any(first * inner % slice_elements for first in firsts) or inner % slice_elements:
        raise NoFlow(f"it takes the parts of '{source}' to pieces")
    return found, inner // slice_elements


def _is_moved(instance: Instance) -> bool:
    """Say whether elements come in another order."""
    (nest,) = instance.nests
    (read, write) = [
        access
        for role in ("input", "output")
        for access in nest.access.values()
        if instance.operand(access.operand).role == role
    ]
    return read.view != write.view or read.index != write.index
