"""Operators that ONNX defines by other operators, replaced by them."""

import onnx
from onnx import helper, inliner

from dlbuild.stages.parse_graph import domain_of, node_of, proto_of
from dlbuild.stages.parse_shapes import ONNX_OF
from dlbuild.stages.rewrites.draft import Draft, Node, check_known
from dlbuild.stages.rewrites.subgraphs import rename as rename_in

LOCAL_DOMAIN = "dlbuild.local"
REDUCTIONS = ("none", "sum", "mean")
WORDS = {
    "CausalConvWithState": ("activation", "none", ("silu", "swish", "none")),
    "LinearAttention": ("update_rule", "gated_delta", ("linear", "gated", "delta", "gated_delta")),
    "NegativeLogLikelihoodLoss": ("reduction", "mean", REDUCTIONS),
    "SoftmaxCrossEntropyLoss": ("reduction", "mean", REDUCTIONS),
}
"""Texts on which bodies depend, their defaults and what is known: onnx takes others for one."""


def body_of(draft: Draft, node: Node) -> list[Node]:
    """Return the nodes that ONNX's function body of an operator consists of; none = no body.

    Raises:
        UserError: the body depends on a text that ONNX does not know.
    """
    if not node.domain and node.kind in WORDS:
        attribute, default, known = WORDS[node.kind]
        check_known(draft, node, attribute, [node.text(attribute, default)], known)
    function = function_of(draft, node)
    if function is None:
        return []
    message = proto_of(node)
    message.domain = LOCAL_DOMAIN
    function.domain, function.name = LOCAL_DOMAIN, node.kind
    # The node names attributes that the function may not declare; the inliner wants them declared.
    names = set(function.attribute) | {a.name for a in function.attribute_proto}
    kept = [a for a in message.attribute if a.name in names]
    del message.attribute[:]
    message.attribute.extend(kept)
    given = {a.name for a in kept}
    defaults = onnx.defs.get_schema(node.kind, node.opset, node.domain).attributes
    message.attribute.extend(
        defaults[name].default_value
        for name in sorted(names - given)
        if name in defaults and defaults[name].default_value.name
    )
    opsets = dict(draft.opsets)
    opsets |= {domain_of(entry.domain): entry.version for entry in function.opset_import}
    graph = helper.make_graph([message], "body", [], [])
    model = helper.make_model(
        graph,
        functions=[function],
        opset_imports=[*function.opset_import, helper.make_opsetid(LOCAL_DOMAIN, 1)],
    )
    nodes = inliner.inline_local_functions(model).graph.node
    body = [node_of(inner, opsets) for inner in nodes]
    rename(draft, node, body)
    return body


def function_of(draft: Draft, node: Node) -> onnx.FunctionProto | None:
    """Return ONNX's function body of a node, which may depend on its operands' types."""
    try:
        schema = onnx.defs.get_schema(node.kind, node.opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:  # type: ignore[attr-defined] # the stub lacks it
        content = schema.get_function_with_opset_version(schema.since_version)  # type: ignore[attr-defined] # the stub lacks it
    elif schema.has_context_dependent_function:  # type: ignore[attr-defined] # the stub lacks it
        types = [
            helper.make_tensor_type_proto(
                ONNX_OF[draft.dtype(name)], draft.shape(name)
            ).SerializeToString()
            if name
            else b""
            for name in node.inputs
        ]
        content = schema.get_context_dependent_function_with_opset_version(  # type: ignore[attr-defined] # the stub lacks it
            schema.since_version, proto_of(node).SerializeToString(), types
        )
    else:
        return None
    if not content:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(content)
    if node.kind == "AffineGrid":
        keep_batch(function)
    return function


def keep_batch(function: onnx.FunctionProto) -> None:
    """Let rows of a matrix lose their own axis only: ONNX's body drops a batch of 1 with it."""
    graphs = [attribute.g for node in function.node for attribute in node.attribute]
    for inner in (inner for graph in graphs for inner in graph.node):
        if inner.op_type == "Squeeze" and len(inner.input) == 1:
            inner.input.append("one_1d")


def rename(draft: Draft, node: Node, body: list[Node]) -> None:
    """Give the inner tensors names of their own, made from the node's."""
    outer = {name for name in (*node.inputs, *node.outputs) if name}
    names: dict[str, str] = {}
    for inner in body:
        inner.name = f"{node.label}/{inner.name or inner.kind}"
        for name in inner.outputs:
            if name and name not in outer and name not in names:
                names[name] = draft.fresh(f"{node.label}/{name}")
    for inner in body:
        inner.inputs = [names.get(name, name) for name in inner.inputs]
        inner.outputs = [names.get(name, name) for name in inner.outputs]
        for attribute in inner.special:
            for graph in (attribute.g, *attribute.graphs):
                rename_in(graph, names)
