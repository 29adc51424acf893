"""Which numbers each element of a result can be: a rule's steps carried out over intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dlbuild.ir.weights import numpy_dtype
from dlbuild.rulebook.arithmetic import NUMPY, Array
from dlbuild.rulebook.derive import loaded_operands
from dlbuild.rulebook.instance import Instance, Loop, Nest
from dlbuild.rulebook.interpret import make, used_accesses
from dlbuild.rulebook.interval import (
    Interval,
    all_of,
    called,
    cast,
    chosen,
    compared,
    computed,
    each,
    known,
    negated,
    stored,
    where,
)
from dlbuild.rulebook.places import Places, places
from dlbuild.rulebook.range import range_of_dtype
from dlbuild.rulebook.value import (
    COMPUTE_TYPE,
    Binary,
    Call,
    Cast,
    Choose,
    Compare,
    Expr,
    Local,
    Logic,
    Lookup,
    Number,
    Offset,
    Position,
    Read,
    Type,
    Unary,
)


def anything(shape: tuple[int, ...], dtype: str) -> Interval:
    """Return the interval of elements of which the type alone is known."""
    bounds = range_of_dtype(dtype) or (-np.inf, np.inf)
    kind = numpy_dtype(dtype)
    return Interval(*(np.full(shape, bound).astype(kind) for bound in bounds))


def intervals(instance: Instance, given: Mapping[str, Interval]) -> dict[str, Interval]:
    """Return what an instance's outputs can be, by operand.

    Args:
        instance: a rule bound to an operator.
        given: its inputs by operand, in the model's own axis order; constants are known.
    """
    outputs = [o for o in instance.operands if o.role == "output"]
    exact = {name: found.low for name, found in given.items() if found.is_known}
    reads = {o.name for o in instance.operands if o.role == "input"} - exact.keys()
    if not instance.nests or any(reads & loaded_operands(nest) for nest in instance.nests):
        return {o.name: anything(o.shape, o.dtype) for o in outputs}
    made = make(instance, exact)
    held = {**given, **{name: known(array) for name, array in made.items()}}
    for operand in outputs:
        nothing = np.zeros(operand.shape, numpy_dtype(operand.dtype))
        held[operand.name] = Interval(nothing, nothing.copy())
    for nest in instance.nests:
        _run(instance, nest, held, exact | made)
    return {o.name: held[o.name] for o in outputs}


def _run(
    instance: Instance, nest: Nest, held: dict[str, Interval], exact: Mapping[str, Array]
) -> None:
    with np.errstate(all="ignore"):
        for at in places(instance.operands, nest, exact):
            Points(instance, held, at).run()


class Points:
    """The values of a nest's steps at some points, each an interval."""

    def __init__(self, instance: Instance, held: dict[str, Interval], at: Places) -> None:
        """held: what each operand can be; outputs are filled in."""
        self._held = held
        self._at = at
        self._locals: dict[str, Interval] = {}
        self._dtype = {o.name: o.dtype for o in instance.operands}

    def run(self) -> None:
        """Carry out all steps."""
        for step in self._at.nest.steps:
            self._step(step)

    def _step(self, step: Loop) -> None:
        for fold in step.folds:
            self._locals[fold.name] = self._spread(self.value(fold.start))
        skipping = [a for a in used_accesses(step) if self._at.skips(a)]
        for _ in self._at.turns(step.over):
            happens = self._at.happens(step, skipping)
            if happens is not None and not happens.any():
                continue
            for let in step.lets:
                self._locals[let.name] = self.value(let.value)
            for fold in step.folds:
                new, old = self.value(fold.each), self._locals[fold.name]
                self._locals[fold.name] = new if happens is None else where(happens, new, old)
            for store in step.stores:
                self._store(store.access, self.value(store.value), happens)

    def _spread(self, value: Interval) -> Interval:
        low = np.broadcast_to(value.low, (self._at.count,))
        return (
            known(low) if value.is_known else Interval(low, np.broadcast_to(value.high, low.shape))
        )

    def value(self, expr: Expr) -> Interval:
        """Return what an expression can be."""
        match expr:
            case Number(number, kind):
                return known(np.asarray(number, NUMPY[kind]))
            case Read(access, kind):
                return each(self._read(access), lambda a: a.astype(NUMPY[kind]))
            case Local(name, _):
                return self._locals[name]
            case Position(index, kind):
                return known(np.asarray(self._at.index(index)).astype(NUMPY[kind]))
            case Offset(access, kind):
                return known(np.asarray(self._at.element(access)).astype(NUMPY[kind]))
            case Lookup(access, at, kind):
                return self._look_up(access, self.value(at), kind)
            case _:
                return self._of_parts(expr)

    def _of_parts(self, expr: Choose | Compare | Logic | Cast | Unary | Binary | Call) -> Interval:
        match expr:
            case Choose(test, then, other, _):
                return chosen(self.value(test), self.value(then), self.value(other))
            case Compare(relation, left, right, _):
                return compared(relation, self.value(left), self.value(right))
            case Logic(operator, parts, _):
                join = np.logical_and if operator == "and" else np.logical_or
                found = [self.value(part) for part in parts]
                low = np.asarray(join.reduce(np.broadcast_arrays(*(f.low for f in found))))
                high = np.asarray(join.reduce(np.broadcast_arrays(*(f.high for f in found))))
                return known(low) if all(f.is_known for f in found) else Interval(low, high)
            case Cast(value, kind):
                return cast(self.value(value), kind)
            case Unary(operator, value, kind):
                return negated(operator, self.value(value), kind)
            case Binary(operator, left, right, kind):
                return computed(operator, self.value(left), self.value(right), kind)
            case Call(function, arguments, kind):
                return called(function, [self.value(a) for a in arguments], kind)

    def _read(self, name: str) -> Interval:
        access = self._at.nest.access[name]
        content = each(self._held[access.operand], lambda a: a.reshape(-1))
        place = self._at.element(name)
        if not access.guards:
            return each(content, lambda a: np.asarray(a[place]))
        exists = self._at.exists(access)
        if not content.low.size:
            content = known(np.zeros(1, content.low.dtype))
        inside = each(content, lambda a: np.asarray(a[np.where(exists, place, 0)]))
        if access.outside is None or access.outside == "skip":
            return inside
        return where(exists, inside, self.value(access.outside))

    def _look_up(self, name: str, place: Interval, kind: Type) -> Interval:
        nest = self._at.nest
        if name in nest.tables:
            content = known(np.asarray(nest.tables[name], np.float64))
        else:
            operand = nest.access[name].operand if name in nest.access else name
            content = each(self._held[operand], lambda a: a.reshape(-1))
        content = each(content, lambda a: a.astype(NUMPY[kind]))
        if place.is_known:
            return each(content, lambda a: np.asarray(a[place.low]))
        if np.isnan(content.low).any():
            return all_of(kind, place.low.shape)
        found = content.low[np.clip(place.low, 0, len(content.low) - 1)]
        is_one = (place.low == place.high) & content.is_known
        low, high = content.low.min(), content.high.max()
        return Interval(np.where(is_one, found, low), np.where(is_one, found, high))

    def _store(self, name: str, value: Interval, happens: Array | None) -> None:
        operand = self._at.nest.access[name].operand
        dtype = self._dtype[operand]
        kind = COMPUTE_TYPE[dtype]
        value = self._spread(stored(cast(value, kind), dtype))
        place = np.broadcast_to(self._at.element(name), (self._at.count,))
        for content, part in zip(self._held[operand], value, strict=True):
            flat = content.reshape(-1)
            if happens is None:
                flat[place] = part.astype(content.dtype)
            else:
                flat[place[happens]] = part[happens].astype(content.dtype)
