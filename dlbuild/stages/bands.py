"""Which rows of its operands an operator needs for some rows of its result, from its index maps."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Instance
from dlbuild.stages.flow import NoFlow, addressed, check_places, loop_of


@dataclass(frozen=True, slots=True)
class Reading:
    """How a tensor is read along one of its axes. is_window: more than one row for a row."""

    axis: int
    extent: int
    places: tuple[Index, ...]
    is_window: bool


@dataclass(frozen=True)
class Bands:
    """An operator whose result may be cut along an axis.

    axes: of each result. reads: of the operands that are cut too; the others are needed whole.
    """

    axes: Mapping[str, int]
    reads: Mapping[str, Reading]
    loop: str
    ranges: Mapping[str, tuple[int, int]]

    def needed(self, tensor: str, first: int, last: int) -> tuple[int, int]:
        """Return the rows [low, high) of an operand that the rows [first, last) of the result need.

        They may lie outside of it: that is padding.
        """
        box = {**self.ranges, self.loop: (first, last)}
        ends = [place.interval(box) for place in self.reads[tensor].places]
        return min(low for low, _ in ends), max(high for _, high in ends) + 1


def bands_of(instance: Instance, tensor: str, axis: int) -> Bands:
    """Return how an operator is cut along an axis of one of its results.

    Raises:
        NoFlow: its rows cannot be computed apart, or one needs rows that do not lie together.
    """
    if len(instance.nests) != 1:
        raise NoFlow("it is no single loop nest")
    (nest,) = instance.nests
    loop = loop_of(instance, nest, tensor, axis)
    check_places(nest, loop)
    axes: dict[str, int] = {}
    found: dict[str, list[tuple[int, Index, int]]] = {}
    for operand, view, places in addressed(instance, nest):
        for number, place in enumerate(places):
            if loop not in place.axes():
                continue
            is_plain = loop not in place.entangled_axes() and place.coefficient(loop) > 0
            if not is_plain or view != operand.shape:
                raise NoFlow(f"it reads '{operand.tensor}' in another order")
            if operand.role == "output":
                axes[operand.tensor] = number
            elif operand.role != "input":
                raise NoFlow("a table of its own goes along that axis")
            else:
                found.setdefault(operand.tensor, []).append((number, place, view[number]))
    outputs = [o.tensor for o in instance.operands if o.role == "output"]
    if set(axes) != set(outputs):
        raise NoFlow("not all of its results go along that axis")
    ranges = {name: (0, extent) for name, extent in nest.extent.items()}
    reads = {name: _reading(name, places, loop) for name, places in found.items()}
    return Bands(axes, reads, loop, ranges)


def _reading(name: str, found: list[tuple[int, Index, int]], loop: str) -> Reading:
    numbers = {number for number, _, _ in found}
    if len(numbers) != 1:
        raise NoFlow(f"it reads a diagonal of '{name}'")
    (axis,) = numbers
    places = tuple(place for _, place, _ in found)
    is_window = any(place.terms != ((loop, 1),) or place.constant for place in places)
    return Reading(axis, found[0][2], places, is_window)
