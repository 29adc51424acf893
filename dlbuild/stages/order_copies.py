"""Copies of interface tensors whose order in memory the operators beside them cannot take.

A template counts elements in the model's own order, and a view of another shape needs one in which
it is a grid. Where `layout` asks for another one, an Identity stands between: the only operator
that reads or writes both.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.target import Options, Rounding
from dlbuild.rulebook.address import view_strides
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.match import Wish, match
from dlbuild.rulebook.plain import plain
from dlbuild.stages.layout import channels_last, is_own, views_of
from dlbuild.stages.rewrites.kinds import COPY

ROUNDINGS: tuple[Rounding, ...] = ("exact", "fixed")
"""A rule may read in another way under each of them."""


def with_copies(graph: Graph, book: RuleBook, options: Options) -> Graph:
    """Return a graph of which every operator takes the orders that `layout` asks for.

    Raises:
        UserError: no rule fits an operator.
    """
    asked = [name for name, order in options.layout if order == "nhwc"]
    names = [n for n in asked if n in (*graph.inputs, *graph.outputs) and _is_reordered(graph, n)]
    if not names:
        return graph
    misfits = {op.name: {*_misfits(op, graph, book)}.intersection(names) for op in graph.ops}
    for name in dict.fromkeys(names):
        if any(name in found for found in misfits.values()):
            graph = _copied(graph, name, misfits)
    return graph


def _is_reordered(graph: Graph, name: str) -> bool:
    shape = graph.tensor[name].shape
    return not is_own(channels_last(len(shape)), shape)


def _misfits(op: Op, graph: Graph, book: RuleBook) -> Iterator[str]:
    """Yield the tensors of an operator that it cannot read or write with the channels last."""
    for rounding in ROUNDINGS:
        instance = plain(match(op, graph, book, Wish(rounding=rounding)))
        for operand, view in views_of(instance):
            order = channels_last(len(operand.shape))
            if view_strides(view, operand.shape, order) is None:
                yield operand.tensor


def _copied(graph: Graph, name: str, misfits: Mapping[str, set[str]]) -> Graph:
    """Return the graph with an Identity between an interface tensor and what cannot take it."""
    inner = _fresh(f"{name}_onnx", graph.tensor)
    is_output = name in graph.outputs
    ends = (inner, name) if is_output else (name, inner)
    label = _fresh(f"{name}_order", {op.name for op in graph.ops})
    copy = Op(label, COPY, ends[:1], ends[1:], opset=13)
    ops: list[Op] = []
    for op in graph.ops:
        changes = is_output or name in misfits.get(op.name, ())
        inputs = tuple(inner if changes and i == name else i for i in op.inputs)
        outputs = tuple(inner if i == name else i for i in op.outputs)
        ops.append(replace(op, inputs=inputs, outputs=outputs))
        if name in op.outputs:
            ops.append(copy)
    if not is_output:
        ops.insert(0, copy)
    names = ", ".join(op for op, found in misfits.items() if name in found)
    note = f"'{name}' is copied to or from the order of ONNX, which {names} cannot do without"
    counts = [replace(c, tensor=inner) for c in graph.counts if c.tensor == name]
    tensor: Tensor = replace(graph.tensor[name], name=inner)
    return replace(
        graph,
        ops=tuple(ops),
        tensors=(*graph.tensors, tensor),
        counts=(*graph.counts, *counts),
        notes=(*graph.notes, note),
    )


def _fresh(name: str, known: Container[str]) -> str:
    """Return a name that is not known."""
    while name in known:
        name += "_"
    return name
