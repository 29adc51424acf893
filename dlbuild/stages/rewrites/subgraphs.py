"""Graphs inside attributes, put into the model's graph."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from dlbuild.stages.parse_file import array_of
from dlbuild.stages.parse_graph import node_of
from dlbuild.stages.rewrites.draft import Draft, Node


def graph_of(node: Node, attribute: str) -> onnx.GraphProto:
    """Return a graph that a node has as an attribute."""
    graph: onnx.GraphProto = next(a.g for a in node.special if a.name == attribute)
    return graph


def inlined(
    draft: Draft, graph: onnx.GraphProto, label: str, given: Mapping[str, str]
) -> tuple[list[Node], list[str]]:
    """Return the nodes of a graph under names of their own, and the names of its outputs.

    Args:
        draft: gets the graph's constants.
        graph: the inner graph; it may read outer tensors by their names.
        label: what the new names begin with.
        given: the outer tensor for each of its inputs.
    """
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    inner = [name for node in copy.node for name in node.output if name]
    inner += [tensor.name for tensor in copy.initializer]
    names = {name: draft.fresh(f"{label}/{name}") for name in dict.fromkeys(inner)}
    rename(copy, {**names, **given})
    for tensor in copy.initializer:
        draft.keep(tensor.name, array_of(tensor, draft.where))
    nodes = [node_of(node, draft.opsets) for node in copy.node]
    for number, node in enumerate(nodes):
        node.name = f"{label}/{node.name or number}"
    return nodes, [value.name for value in copy.output]


def rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename tensors in a graph and in the graphs inside it."""
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for value in graph.output:
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                rename(inner, names)


def copies(draft: Draft, node: Node, names: list[str]) -> list[Node]:
    """Return nodes that give the results of `node` the values of these tensors."""
    del draft
    return [
        Node("Identity", [name], [result], opset=node.opset)
        for name, result in zip(names, node.outputs, strict=True)
        if result
    ]
