"""Every name that the expressions of a rule may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dlbuild.rulebook.rule import OpRule, TensorSpec

MOST_MEMBERS = 64
"""How many tensors of a variadic `x*` a rule can name one by one: x0, x1..."""


@dataclass(frozen=True)
class Names:
    """The names of one rule, by what they stand for.

    bound: sizes before any `let`. sizes: with them. accesses: what values may read.
    outputs: what steps may write. tensors: what maps may load from or be of. axes: with the
    index tables. reduce, packs: those of the axes that are.
    """

    bound: frozenset[str]
    sizes: frozenset[str]
    axes: frozenset[str]
    reduce: frozenset[str]
    packs: frozenset[str]
    tensors: frozenset[str]
    accesses: frozenset[str]
    outputs: frozenset[str]


def names_of(rule: OpRule) -> Names:
    """Return the names that a rule's expressions may use, variants left out."""
    bound = frozenset(_bound(rule))
    axes = (*rule.domain_axes, *rule.reduce_axes)
    inputs = frozenset(_members(spec for spec in rule.inputs if not spec.value))
    outputs = frozenset(_members(rule.outputs))
    written = {name for name, spec in rule.writes.items() if spec.of in outputs}
    read = {name for name in rule.reads if name != "*"}
    readable = inputs if "*" in rule.reads else inputs & read
    absent = {spec.name for spec in rule.inputs if spec.absent is not None and not spec.value}
    extra = {"J"} if rule.for_each else set()
    return Names(
        bound,
        bound | frozenset(rule.lets) | extra,
        frozenset(axis.name for axis in axes)
        | frozenset(name for name, table in rule.tables.items() if table.is_index),
        frozenset(axis.name for axis in rule.reduce_axes),
        frozenset(axis.name for axis in axes if axis.is_pack),
        inputs | outputs,
        readable | read | outputs | written | absent,
        outputs | written,
    )


def _bound(rule: OpRule) -> Iterator[str]:
    yield from ("opset", "COUNT")
    for spec in (*rule.inputs, *rule.outputs):
        if spec.is_variadic:
            yield f"{spec.name.upper()}S"
        for name in _members((spec,)):
            for prefix in ("has", "rank", "shape", "dtype"):
                yield f"{prefix}_{name}"
        yield from (part.removesuffix("...") for part in spec.shape or () if not part.isdigit())
        yield from (name for name in (spec.value, spec.all_zero, spec.narrow) if name)
        yield from (name for name in spec.dtypes if name[0].isupper())
    for name, attribute in rule.attributes.items():
        yield f"has_{name}"
        yield from attribute.names


def _members(specs: Iterable[TensorSpec]) -> Iterator[str]:
    for spec in specs:
        yield spec.name
        if spec.is_variadic:
            for number in range(MOST_MEMBERS):
                yield f"{spec.name}{number}"
