"""Types and extents of an operator's results, where its rule ties them to its operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.rulebook.bind import Binding, Unfit, bind, conclude
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.pack import Term
from dlbuild.rulebook.rule import TensorSpec


def results_of(op: Op, graph: Graph, book: RuleBook) -> Mapping[str, Tensor]:
    """Return the results that the first rule that fits says all of, by their names.

    A result's shape is known if its names are those of operands' extents, or of `let`; its type,
    if it is one type or that of an operand. No result need be in the graph.
    """
    for rule in book.rules_for(op.domain, op.kind):
        try:
            binding = bind(rule, op, graph, with_outputs=False)
            conclude(binding, rule.lets)
        except Unfit:
            continue
        return dict(_results(binding, op))
    return {}


def _results(binding: Binding, op: Op) -> Iterator[tuple[str, Tensor]]:
    for spec, name in zip(binding.rule.outputs, op.outputs, strict=False):
        shape = _extents(spec.shape, binding.names)
        dtype = _dtype(spec, binding.names)
        if name and shape is not None and dtype:
            yield name, Tensor(name, dtype, shape)


def _extents(pattern: Sequence[str] | None, names: Mapping[str, Term]) -> tuple[int, ...] | None:
    if pattern is None:
        return None
    extents: list[int] = []
    for part in pattern:
        name = part.removesuffix("...")
        value = int(name) if name.isdigit() else names.get(name)
        members = value if isinstance(value, tuple) else (value,)
        for member in members:
            if not isinstance(member, int):
                return None
            extents.append(member)
    return tuple(extents)


def _dtype(spec: TensorSpec, names: Mapping[str, Term]) -> str:
    if len(spec.dtypes) != 1:
        return ""
    (dtype,) = spec.dtypes
    known = names.get(dtype, dtype)
    return known if isinstance(known, str) and known in DTYPES else ""
