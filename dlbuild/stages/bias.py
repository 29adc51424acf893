"""What the slices of one operand add to an operator's sums, and the bias that can hold it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from dlbuild.emit.ranges import added
from dlbuild.ir.weights import Array
from dlbuild.rulebook.derive import step_values
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance, Loop, Nest
from dlbuild.rulebook.interpret import make
from dlbuild.rulebook.interval import known
from dlbuild.rulebook.intervals import Points
from dlbuild.rulebook.places import Places
from dlbuild.rulebook.value import Binary, Expr, Local, Lookup, Read, walk
from dlbuild.stages.lanes import Link, single_axis


@dataclass(frozen=True)
class Bias:
    """A sum over a lane, and the constant that is added to it.

    tensor: the constant, the empty name if there is none. at: the loop along it. each: what a
    turn of the sum adds. reads: the access of what is summed. position: its axis of the lane.
    """

    instance: Instance
    step: Loop
    each: Expr
    reads: str
    axis: str
    position: int
    tensor: str
    at: str

    def parts(self, fixed: Mapping[int, int], weights: Mapping[str, Array]) -> dict[int, Array]:
        """Return what slices that hold one number add to the sum, for each element of the bias.

        Left out is what depends on the place, since parts of it lie outside of the tensor, or is
        not zero without a bias to hold it.

        Args:
            fixed: the number that each slice holds.
            weights: numbers of the graph's constants.
        """
        if not fixed:
            return {}
        slices = sorted(fixed)
        terms = self._terms(slices, fixed, weights)
        must_be_zero = not self.tensor or bool(self._nest.access[self.reads].guards)
        totals = terms.sum(axis=2)
        return {
            n: totals[:, at]
            for at, n in enumerate(slices)
            if not must_be_zero or not terms[:, at].any()
        }

    def add(
        self, goes: Collection[int], fixed: Mapping[int, int], weights: dict[str, Array]
    ) -> None:
        """Put the parts of slices into the numbers of the bias; as all sums, they wrap around."""
        parts = self.parts({n: fixed[n] for n in goes}, weights)
        if self.tensor and parts:
            held = weights[self.tensor]
            total = held.astype(np.int64) + np.sum(list(parts.values()), axis=0).reshape(held.shape)
            weights[self.tensor] = total.astype(held.dtype)

    @property
    def _nest(self) -> Nest:
        return self.instance.nests[0]

    def _terms(
        self, slices: list[int], fixed: Mapping[int, int], weights: Mapping[str, Array]
    ) -> Array:
        """Return what each turn adds, by element of the bias, slice and turn of other loops."""
        nest, read = self._nest, self._nest.access[self.reads]
        others = [a for a in self.step.over if a != self.axis]
        shape = [
            nest.extent[self.at] if self.at else 1,
            len(slices),
            *(nest.extent[a] for a in others),
        ]
        grid = [g.ravel() for g in np.indices(shape)]
        axes = dict.fromkeys(nest.domain, np.zeros(prod(shape), np.int64))
        if self.at:
            axes[self.at] = grid[0]
        axes |= {self.axis: np.array(slices)[grid[1]], **dict(zip(others, grid[2:], strict=True))}
        inside = tuple(
            Index.axis(self.axis) if n == self.position else Index() for n in range(len(read.view))
        )
        moved = Access(read.operand, read.view, inside)
        flat = replace(nest, access={**nest.access, self.reads: moved})
        line = np.zeros(read.view[self.position], np.int64)
        line[slices] = [fixed[n] for n in slices]
        spread = line.reshape([-1 if n == self.position else 1 for n in range(len(read.view))])
        held = {o.name: weights[o.tensor] for o in self.instance.operands if o.tensor in weights}
        held |= make(self.instance, held)
        held[read.operand] = np.broadcast_to(spread, read.view)
        at = Places(self.instance.operands, flat, held, axes, prod(shape))
        points = Points(self.instance, {name: known(a) for name, a in held.items()}, at)
        found = np.broadcast_to(points.value(self.each).low, (prod(shape),))
        return found.astype(np.int64).reshape(shape[0], shape[1], -1)


def bias_of(instance: Instance, link: Link, constants: Collection[str]) -> Bias | None:
    """Return the sum over a link, if it is one that a constant is added to.

    Args:
        instance: an operator.
        link: a loop over what makes one result.
        constants: the graph's.
    """
    [nest] = instance.nests
    steps = [step for step in nest.steps if link.axis in step.over]
    if len(steps) != 1 or steps[0].lets or steps[0].stores or len(steps[0].folds) != 1:
        return None
    [step] = steps
    [fold] = step.folds
    each = added(fold)
    if each is None or fold.type != "i32" or step.when:
        return None
    reads = {expr.access for expr in walk(each) if isinstance(expr, Read)}
    if any(isinstance(expr, Local | Lookup) for expr in walk(each)):
        return None
    moving = [r for r in reads if instance.operand(nest.access[r].operand).tensor not in constants]
    moving = [r for r in moving if instance.operand(nest.access[r].operand).role == "input"]
    if len(moving) != 1:
        return None
    [read] = moving
    access = nest.access[read]
    operand = instance.operand(access.operand)
    [(_, position)] = link.lanes
    if access.view != operand.shape or access.outside not in (None, "skip"):
        return None
    found = _constant_after(nest, fold.name, instance, constants)
    if found is None:
        return None
    tensor, at = found
    used = {a for r in reads - {read} for index in nest.access[r].index for a in index.axes()}
    if {a for a in used if nest.extent[a] > 1} - {*step.over, at}:
        return None
    return Bias(instance, step, each, read, link.axis, position, tensor, at)


def _constant_after(
    nest: Nest, name: str, instance: Instance, constants: Collection[str]
) -> tuple[str, str] | None:
    """Return the constant that is added to a sum wherever it is used, and the loop along it."""
    found: set[tuple[str, str]] = set()
    n_uses = n_biased = 0
    for step in nest.steps:
        for value in step_values(step):
            for expr in walk(value):
                n_uses += isinstance(expr, Local) and expr.name == name
                match expr:
                    case Binary("+", Local(local, _), Read(access, _), "i32") if local == name:
                        operand = instance.operand(nest.access[access].operand)
                        places = nest.access[access].index
                        loops = [single_axis(index, nest.extent) for index in places]
                        loops = [a for a, n in zip(loops, operand.shape, strict=True) if n > 1]
                        if operand.tensor not in constants or operand.dtype != "int32":
                            return None
                        if len(loops) > 1 or None in loops:
                            return None
                        n_biased += 1
                        found.add((operand.tensor, loops[0] or "" if loops else ""))
                    case _:
                        pass
    n_uses -= 1  # its own sum
    if n_biased == 0:
        return "", ""
    return found.pop() if n_uses == n_biased and len(found) == 1 else None
