"""From the ONNX file's messages to a draft: names checked, constants collected, nodes sorted."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, inliner

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Attribute, Tensor
from dlbuild.ir.weights import Array, numpy_dtype
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.parse_file import array_of
from dlbuild.stages.parse_sequences import open_inputs
from dlbuild.stages.parse_shapes import DTYPE_OF, bind
from dlbuild.stages.rewrites.draft import Draft, Node, is_special

DEFAULT_DOMAIN = "ai.onnx"


def draft_of(
    model: onnx.ModelProto,
    source: Path,
    shapes: Mapping[str, tuple[int, ...]],
    book: RuleBook,
    state: Mapping[str, str] | None = None,
) -> Draft:
    """Return the draft of a model whose external data is filled in.

    The model's own functions are replaced by their bodies, except those that a rule computes.

    Raises:
        UserError: names that clash, an empty graph, no opset, shapes that do not bind.
    """
    where = str(source)
    if not model.opset_import:
        raise UserError(
            "the model does not say which operator set it uses",
            where=where,
            why="it has no opset_import, so no operator has a meaning",
            fix="export the model again",
        )
    if model.functions:
        kept = [(f.domain, f.name) for f in model.functions if book.rules_for(f.domain, f.name)]
        fill_defaults(model)
        model = inliner.inline_selected_functions(model, kept, exclude=True)
    graph = model.graph
    check_names(graph, where)
    draft = Draft(where)
    read_constants(draft, graph)
    open_states(draft, state or {}, [value.name for value in graph.input])
    inputs = [value for value in graph.input if value.name not in draft.constants]
    opened = open_inputs(inputs, shapes, where)
    draft.sequences, draft.optionals = opened.sequences, opened.optionals
    draft.groups, draft.notes = opened.groups, opened.notes
    bound = bind(opened.values, opened.shapes, where)
    draft.inputs = [tensor.name for tensor in bound.tensors]
    draft.tensors |= {tensor.name: tensor for tensor in bound.tensors}
    draft.notes += bound.notes
    draft.outputs = [value.name for value in graph.output]
    leave_out_empty(draft)
    draft.declared = declared_tensors([*graph.value_info, *graph.output])
    draft.opsets = {domain_of(entry.domain): entry.version for entry in model.opset_import}
    draft.nodes = [node_of(node, draft.opsets) for node in graph.node]
    draft.taken |= set(draft.tensors) | set(draft.inputs) | set(draft.outputs)
    draft.taken |= {name for node in draft.nodes for name in node.outputs if name}
    check_reads(draft)
    draft.sort()
    return draft


def open_states(draft: Draft, state: Mapping[str, str], inputs: Sequence[str]) -> None:
    """Note what is carried between runs; the default of such an input is what it has at first.

    Raises:
        UserError: it is a constant, which ONNX Runtime would not let anybody change.
    """
    draft.carried = dict(state)
    for name in state.values():
        if name not in draft.constants:
            continue
        if name not in inputs:
            raise UserError(
                f"the state '{name}' is a constant of the model",
                where=draft.where,
                why="only an input can change from run to run",
                fix=f"list '{name}' among the graph's inputs as well; "
                "its initializer is then what it has at first",
            )
        draft.initial[name] = draft.constants.pop(name)


def leave_out_empty(draft: Draft) -> None:
    """Make inputs without elements constants: all that they hold is known."""
    for name in draft.inputs:
        tensor = draft.tensors[name]
        if tensor.count == 0:
            draft.keep(name, np.zeros(tensor.shape, numpy_dtype(tensor.dtype)))
            draft.notes.append(f"input '{name}' has no elements and is left out")
    draft.inputs = [name for name in draft.inputs if name not in draft.constants]


def fill_defaults(model: onnx.ModelProto) -> None:
    """Write the default attributes of the model's functions at each call; the inliner needs it."""
    defaults = {(f.domain, f.name): f.attribute_proto for f in model.functions}
    nodes = [*model.graph.node, *(node for f in model.functions for node in f.node)]
    while nodes:
        node = nodes.pop()
        given = {attribute.name for attribute in node.attribute}
        for attribute in node.attribute:
            nodes += [n for graph in (attribute.g, *attribute.graphs) for n in graph.node]
        for attribute in defaults.get((node.domain, node.op_type), ()):
            if attribute.name not in given:
                node.attribute.append(attribute)


def domain_of(domain: str) -> str:
    """Return the domain's short form: the default one is empty."""
    return "" if domain == DEFAULT_DOMAIN else domain


def node_of(node: onnx.NodeProto, opsets: Mapping[str, int]) -> Node:
    """Return a node with its attributes decoded."""
    domain = domain_of(node.domain)
    inputs = list(node.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    outputs = list(node.output)
    while len(outputs) > 1 and not outputs[-1]:
        outputs.pop()
    return Node(
        node.op_type,
        inputs,
        outputs,
        {a.name: plain(a) for a in node.attribute if not is_special(a)},
        "".join(character if is_printable(character) else "?" for character in node.name),
        domain,
        opsets.get(domain, 1),
        tuple(a for a in node.attribute if is_special(a)),
    )


def plain(attribute: onnx.AttributeProto) -> Attribute:
    """Return an attribute's value as the graph holds it."""
    kinds = onnx.AttributeProto
    if attribute.type == kinds.INT:
        return int(attribute.i)
    if attribute.type == kinds.FLOAT:
        return float(attribute.f)
    if attribute.type == kinds.STRING:
        return bytes(attribute.s).decode("utf-8", "replace")
    if attribute.type == kinds.INTS:
        return tuple(int(v) for v in attribute.ints)
    if attribute.type == kinds.FLOATS:
        return tuple(float(v) for v in attribute.floats)
    return tuple(bytes(v).decode("utf-8", "replace") for v in attribute.strings)


def check_names(graph: onnx.GraphProto, where: str) -> None:
    """Refuse a graph in which a name stands for two things or cannot be printed.

    Raises:
        UserError: names the tensor.
    """
    if not graph.output:
        raise UserError(
            "the model has no outputs",
            where=where,
            why="there is nothing to compute",
            fix="export the model with its outputs",
        )
    written: dict[str, str] = {}
    for kind, names in (
        ("an input", [v.name for v in graph.input]),
        ("an initializer", [t.name for t in graph.initializer]),
        ("an initializer", [t.values.name for t in graph.sparse_initializer]),
        ("a node's output", [o for node in graph.node for o in node.output if o]),
    ):
        for name in names:
            check_printable(name, where)
            before = written.get(name)
            # Up to IR version 3 an initializer had to be listed as an input too.
            if before and (before, kind) != ("an input", "an initializer"):
                raise UserError(
                    f"the name '{name}' stands for two tensors",
                    where=where,
                    why=f"it is {before} and {kind}"
                    if before != kind
                    else f"it is {kind} more than once",
                    fix="give each tensor a name of its own and export again",
                )
            written[name] = kind
    for value in graph.output:
        if value.name not in written:
            raise UserError(
                f"nothing computes the output '{value.name}'",
                where=where,
                fix="export the model again",
            )


def check_printable(name: str, where: str) -> None:
    """Refuse a name that would break a line of text.

    Raises:
        UserError: it is empty or holds control characters.
    """
    if name and all(map(is_printable, name)):
        return
    raise UserError(
        f"a tensor is named {name!a}",
        where=where,
        why="names appear in messages, file comments and reports; "
        "this one is empty or holds control characters",
        fix="rename the tensor and export again",
    )


def is_printable(character: str) -> bool:
    """Say whether a character is none of the control characters of ASCII."""
    return ord(character) >= ord(" ") and character != "\x7f"


def check_reads(draft: Draft) -> None:
    """Refuse a node that reads what nothing writes.

    Raises:
        UserError: names the node and the tensor.
    """
    known = draft.tensors.keys() | draft.sequences.keys() | draft.optionals.keys()
    known |= {name for node in draft.nodes for name in node.outputs}
    for node in draft.nodes:
        for name in node.inputs:
            if name and name not in known:
                raise UserError(
                    f"nothing computes the tensor '{name}'",
                    where=f"{draft.where}: node '{node.label}' ({node.kind})",
                    fix="export the model again",
                )


def read_constants(draft: Draft, graph: onnx.GraphProto) -> None:
    """Store the graph's initializers, sparse ones as dense."""
    for tensor in graph.initializer:
        draft.load(tensor.name, array_of(tensor, draft.where))
    for sparse in graph.sparse_initializer:
        draft.keep(sparse.values.name, dense(sparse, draft.where))


def dense(sparse: onnx.SparseTensorProto, where: str) -> Array:
    """Return a sparse tensor with its zeros filled in."""
    values = array_of(sparse.values, where)
    indices = array_of(sparse.indices, where).astype(np.int64)
    result = np.zeros(tuple(sparse.dims), dtype=values.dtype)
    if indices.ndim == 1:
        result.reshape(-1)[indices] = values
    else:
        result[tuple(indices.T)] = values
    return result


def declared_tensors(values: Iterable[onnx.ValueInfoProto]) -> dict[str, Tensor]:
    """Return the tensors whose type and extents the file states in full."""
    found: dict[str, Tensor] = {}
    for value in values:
        tensor = tensor_of(value.name, value.type)
        if tensor is not None:
            found[value.name] = tensor
    return found


def tensor_of(name: str, kind: onnx.TypeProto) -> Tensor | None:
    """Return a tensor if its type is complete, else None."""
    dtype = DTYPE_OF.get(kind.tensor_type.elem_type)
    if dtype is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if any(not d.HasField("dim_value") or d.dim_value < 0 for d in dims):
        return None
    return Tensor(name, dtype, tuple(d.dim_value for d in dims))


def proto_of(node: Node) -> onnx.NodeProto:
    """Return a node as an ONNX message."""
    message = helper.make_node(node.kind, node.inputs, node.outputs, node.name, domain=node.domain)
    for name in sorted(node.attributes):
        message.attribute.append(attribute_of(name, node.attributes[name]))
    message.attribute.extend(node.special)
    return message


def attribute_of(name: str, value: Attribute) -> onnx.AttributeProto:
    """Return an attribute as an ONNX message; an empty list is a list of integers."""
    if value == ():
        return helper.make_attribute(name, [], attr_type=onnx.AttributeProto.INTS)
    return helper.make_attribute(name, value)
