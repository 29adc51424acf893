"""A rule's steps carried out with numpy: the oracle that shares nothing with the C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dlbuild.ir.weights import numpy_dtype
from dlbuild.rulebook.arithmetic import BINARY, COMPARE, FUNCTIONS, NUMPY, Array, convert
from dlbuild.rulebook.instance import Instance, Loop, Made, Nest, Operand
from dlbuild.rulebook.places import Places, places
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
    Unary,
    walk,
)


def interpret(instance: Instance, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Compute an instance's outputs.

    Args:
        instance: a rule bound to an operator, with at least one nest.
        arrays: its inputs by operand name, in the model's own axis order. Made constants that
            are missing are computed first.
    """
    held = {**arrays, **make(instance, arrays)} if instance.made else dict(arrays)
    outputs = [o for o in instance.operands if o.role == "output"]
    for operand in outputs:
        held[operand.name] = np.zeros(operand.shape, numpy_dtype(operand.dtype))
    for nest in instance.nests:
        _run(instance.operands, nest, held)
    return {o.name: held[o.name] for o in outputs}


def make(instance: Instance, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Compute the constants that an instance's kernel needs beside the model's own.

    Args:
        instance: a rule bound to an operator.
        arrays: the constant inputs by operand name; a made constant that is already there stays.
    """
    return computed(instance.operands, instance.made, arrays)


def computed(
    operands: Sequence[Operand], constants: Sequence[Made], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Compute constants, in their order, from arrays by operand name; see `make`."""
    named = {operand.name: operand for operand in operands}
    held = dict(arrays)
    for made in constants:
        if made.operand not in arrays:
            operand = named[made.operand]
            held[made.operand] = np.zeros(operand.shape, numpy_dtype(operand.dtype))
            _run(operands, made.nest, held)
    return {made.operand: held[made.operand] for made in constants}


def used_accesses(step: Loop) -> tuple[str, ...]:
    """Return the accesses that a step reads or writes, in order of first use."""
    found: dict[str, None] = {}
    values = [let.value for let in step.lets] + [fold.each for fold in step.folds]
    for value in (*values, *(store.value for store in step.stores)):
        for expr in walk(value):
            if isinstance(expr, Read | Lookup):
                found[expr.access] = None
    for store in step.stores:
        found[store.access] = None
    return tuple(found)


def _run(operands: Sequence[Operand], nest: Nest, held: dict[str, Array]) -> None:
    with np.errstate(all="ignore"):
        for at in places(operands, nest, held):
            _Points(operands, held, at).run()


class _Points:
    """Some points of a nest's domain at once; every value is one array over them."""

    def __init__(self, operands: Sequence[Operand], held: dict[str, Array], at: Places) -> None:
        self._nest = at.nest
        self._held = held
        self._at = at
        self._locals: dict[str, Array] = {}
        self._dtype = {operand.name: operand.dtype for operand in operands}

    def run(self) -> None:
        for step in self._nest.steps:
            self._step(step)

    def _step(self, step: Loop) -> None:
        for fold in step.folds:
            start = np.asarray(self._value(fold.start))
            self._locals[fold.name] = np.broadcast_to(start, (self._at.count,))
        skipping = [a for a in used_accesses(step) if self._at.skips(a)]
        for _ in self._at.turns(step.over):
            happens = self._at.happens(step, skipping)
            if happens is not None and not happens.any():
                continue
            for let in step.lets:
                self._locals[let.name] = self._value(let.value)
            for fold in step.folds:
                new = self._value(fold.each)
                old = self._locals[fold.name]
                self._locals[fold.name] = new if happens is None else np.where(happens, new, old)
            for store in step.stores:
                self._store(store.access, self._value(store.value), happens)

    def _value(self, expr: Expr) -> Array:
        match expr:
            case Number(number, kind):
                return np.asarray(number, NUMPY[kind])
            case Read(access, kind):
                return self._read(access).astype(NUMPY[kind])
            case Local(name, _):
                return self._locals[name]
            case Position(index, kind):
                return np.asarray(self._at.index(index)).astype(NUMPY[kind])
            case Offset(access, kind):
                return np.asarray(self._at.element(access)).astype(NUMPY[kind])
            case Lookup(access, at, kind):
                return self._look_up(access, self._value(at)).astype(NUMPY[kind])
            case Cast(value, kind):
                return convert(self._value(value), kind)
            case Choose(test, then, other, _):
                return np.where(self._value(test), self._value(then), self._value(other))
            case _:
                return self._computed(expr)

    def _computed(self, expr: Unary | Binary | Compare | Logic | Call) -> Array:
        match expr:
            case Unary("-", value, _):
                return np.asarray(np.negative(self._value(value)))
            case Unary("not", value, _):
                return np.asarray(np.logical_not(self._value(value)))
            case Unary(_, value, _):
                return np.asarray(np.invert(self._value(value)))
            case Binary(operator, left, right, _):
                return np.asarray(BINARY[operator](self._value(left), self._value(right)))
            case Compare(relation, left, right, _):
                return np.asarray(COMPARE[relation](self._value(left), self._value(right)))
            case Logic(operator, parts, _):
                join = np.logical_and if operator == "and" else np.logical_or
                return np.asarray(join.reduce(np.broadcast_arrays(*map(self._value, parts))))
            case Call(function, arguments, kind):
                result = FUNCTIONS[function](*(self._value(a) for a in arguments))
                return np.asarray(result).astype(NUMPY[kind])

    def _read(self, name: str) -> Array:
        access = self._nest.access[name]
        content = self._held[access.operand].reshape(-1)
        place = self._at.element(name)
        if not access.guards:
            return np.asarray(content[place])
        exists = self._at.exists(access)
        inside = content[np.where(exists, place, 0)] if content.size else np.zeros(1, content.dtype)
        if access.outside is None or access.outside == "skip":
            return inside
        return np.where(exists, inside, self._value(access.outside))

    def _look_up(self, name: str, place: Array) -> Array:
        if name in self._nest.access:
            content = self._held[self._nest.access[name].operand].reshape(-1)
        elif name in self._nest.tables:
            content = np.asarray(self._nest.tables[name], np.float64)
        else:
            content = self._held[name].reshape(-1)
        return np.asarray(content[place])

    def _store(self, name: str, value: Array, happens: Array | None) -> None:
        operand = self._nest.access[name].operand
        dtype = self._dtype[operand]
        content = self._held[operand].reshape(-1)
        converted = convert(value, COMPUTE_TYPE[dtype]).astype(content.dtype)
        place = np.broadcast_to(self._at.element(name), (self._at.count,))
        spread = np.broadcast_to(converted, (self._at.count,))
        if happens is None:
            content[place] = spread
        else:
            content[place[happens]] = spread[happens]
