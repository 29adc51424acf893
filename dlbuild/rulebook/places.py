"""Where a nest's accesses lie, for many points of its domain at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from dlbuild.rulebook.address import address
from dlbuild.rulebook.arithmetic import COMPARE, Array
from dlbuild.rulebook.index import Atom, Folded, Index, Loaded, Quotient, Remainder, Tabled
from dlbuild.rulebook.instance import Access, Condition, Loop, Nest, Operand

POINTS_AT_ONCE = 1 << 18


def places(operands: Sequence[Operand], nest: Nest, held: Mapping[str, Array]) -> Iterator[Places]:
    """Go through all points of a nest's domain, so many at once that they fit into memory.

    held: tensors of indices, by operand.
    """
    extents = [nest.extent[axis] for axis in nest.domain]
    count = prod(extents)
    for first in range(0, count, POINTS_AT_ONCE):
        numbers = np.arange(first, min(first + POINTS_AT_ONCE, count), dtype=np.int64)
        points = np.unravel_index(numbers, extents) if extents else ()
        axes = {a: np.asarray(p) for a, p in zip(nest.domain, points, strict=True)}
        yield Places(operands, nest, held, axes, len(numbers))


class Places:
    """Some points of a nest's domain at once; every place is one array over them."""

    def __init__(
        self,
        operands: Sequence[Operand],
        nest: Nest,
        held: Mapping[str, Array],
        axes: Mapping[str, Array],
        count: int,
    ) -> None:
        """held: tensors of indices, by operand. axes: the points, `count` on each domain axis."""
        self.nest = nest
        self.count = count
        self._held = held
        self._domain = frozenset(axes)
        self._axes: dict[str, Array | int] = dict(axes)
        named = {operand.name: operand for operand in operands}
        self._address = {
            name: address(access, named[access.operand]) for name, access in nest.access.items()
        }
        self._split: dict[Index, tuple[Array | int, tuple[tuple[Atom, int], ...]]] = {}

    def turns(self, over: Sequence[str]) -> Iterator[None]:
        """Go through the points of loops, one turn for each."""
        for point in product(*(range(self.nest.extent[a]) for a in over)):
            self._axes.update(zip(over, point, strict=True))
            yield

    def skips(self, access: str) -> bool:
        """Tell whether an iteration does not happen where an access leaves its tensor."""
        found = self.nest.access.get(access)
        return found is not None and bool(found.guards) and found.outside == "skip"

    def happens(self, step: Loop, skipping: Sequence[str]) -> Array | None:
        """Return at which points the iteration happens; None = at all."""
        tests = [self._holds(condition) for condition in step.when]
        tests += [self.exists(self.nest.access[a]) for a in skipping]
        if not tests:
            return None
        happens = np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*tests)), self.count)
        return None if happens.all() else happens

    def _holds(self, condition: Condition) -> Array:
        left, right = self.index(condition.left), self.index(condition.right)
        return np.asarray(COMPARE[condition.operator](np.asarray(left), np.asarray(right)))

    def exists(self, access: Access) -> Array:
        """Return at which points the element that an access addresses exists."""
        tests: list[Array] = []
        for guard in access.guards:
            place = np.asarray(self.index(guard.index))
            tests.append(np.asarray((place >= 0) & (place < guard.extent)))
        return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*tests)))

    def element(self, access: str) -> Array | int:
        """Return the number of the element that an access addresses, in the model's own order."""
        return self.index(self._address[access])

    def index(self, index: Index) -> Array | int:
        """Return a map's value; what depends on the domain alone is computed once."""
        split = self._split.get(index)
        if split is None:
            fixed: Array | int = index.constant
            moving: list[tuple[Atom, int]] = []
            for atom, factor in index.terms:
                if set(Index.atom(atom).axes()) <= self._domain:
                    fixed = fixed + self._atom(atom) * factor
                else:
                    moving.append((atom, factor))
            split = self._split[index] = (fixed, tuple(moving))
        total, rest = split
        for atom, factor in rest:
            total = total + self._atom(atom) * factor
        return total

    def _atom(self, atom: Atom) -> Array | int:
        match atom:
            case str():
                return self._axes[atom]
            case Quotient(of, by):
                return self.index(of) // by
            case Remainder(of, by):
                return self.index(of) % by
            case Folded(how, of, extent):
                return _folded(how, np.asarray(self.index(of)), extent)
            case Tabled(of, _, numbers):
                return np.asarray(numbers, np.int64)[self.index(of)]
            case Loaded(operand, at, _):
                places = tuple(np.asarray(self.index(i)) for i in at)
                return np.asarray(self._held[operand][places]).astype(np.int64)


def _folded(how: str, place: Array, extent: int) -> Array:
    """Bring a place into [0, extent); see `index.Folded`."""
    match how:
        case "wrap":
            return np.where(place < 0, place + extent, place)
        case "clamp":
            return np.clip(place, 0, extent - 1)
        case _:
            period = max(2 * (extent - 1), 1)
            turned = np.remainder(place, period)
            return np.minimum(turned, period - turned) if extent > 1 else turned * 0
