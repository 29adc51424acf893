"""An If whose condition is known at build time: the branch that is taken, in its place."""

from collections.abc import Mapping

import onnx

from dlbuild.stages.parse_file import array_of
from dlbuild.stages.parse_graph import node_of
from dlbuild.stages.rewrites.draft import Draft, Node


def branch_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return the nodes of the branch that an If takes; None if it is not known which."""
    if node.kind != "If" or node.domain or node.inputs[0] not in draft.constants:
        return None
    wanted = "then_branch" if draft.constants[node.inputs[0]].all() else "else_branch"
    graph = onnx.GraphProto()
    graph.CopyFrom(next(a.g for a in node.special if a.name == wanted))
    inner = [name for n in graph.node for name in n.output if name]
    inner += [tensor.name for tensor in graph.initializer]
    names = {name: draft.fresh(f"{node.label}/{name}") for name in dict.fromkeys(inner)}
    rename(graph, names)
    for tensor in graph.initializer:
        draft.keep(tensor.name, array_of(tensor, draft.where))
    body = [node_of(n, draft.opsets) for n in graph.node]
    for number, n in enumerate(body):
        n.name = f"{node.label}/{n.name or number}"
    copies = [
        Node("Identity", [value.name], [result], opset=node.opset)
        for value, result in zip(graph.output, node.outputs, strict=True)
        if result
    ]
    return [*body, *copies]


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
