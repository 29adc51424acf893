"""One walk over the nodes: types and extents of each result; what is constant is computed.

Constants are folded as they come, so that shapes made by operators (the extents of a tensor,
picked, joined, and handed to a reshape) are known where they are read.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Tensor
from dlbuild.ir.weights import numpy_dtype
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.results import results_of
from dlbuild.stages.parse_graph import proto_of, tensor_of
from dlbuild.stages.parse_shapes import DTYPE_OF, ONNX_OF
from dlbuild.stages.rewrites.branches import branch_of
from dlbuild.stages.rewrites.contents import check_sizes
from dlbuild.stages.rewrites.contrib import ADOPTED, CONTRIB, product, stand_in
from dlbuild.stages.rewrites.counts import (
    count_results,
    follow_counts,
    output_counts,
    refuse_extents,
)
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.einsum import einsum_of
from dlbuild.stages.rewrites.fold import alone, fold, interpret_constants
from dlbuild.stages.rewrites.functions import body_of
from dlbuild.stages.rewrites.loops import loop_of
from dlbuild.stages.rewrites.ml import ml_of
from dlbuild.stages.rewrites.modernize import modernize
from dlbuild.stages.rewrites.ngrams import ngrams_of
from dlbuild.stages.rewrites.room import with_room
from dlbuild.stages.rewrites.sequences import open_outputs, sequence_of
from dlbuild.stages.rewrites.tree_ensemble import ensemble_of

PARTS = frozenset({"Split"})
"""Operators of which results without elements need no place."""

REWRITES = (
    sequence_of,
    branch_of,
    loop_of,
    einsum_of,
    ml_of,
    ensemble_of,
    ngrams_of,
    with_room,
    modernize,
)
"""What may put other nodes in a node's place; the first that does so counts."""

UNREAD = frozenset(
    [
        *("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min", "Sum", "Mean", "Clip", "Where"),
        *("Conv", "ConvTranspose", "ConvInteger", "Gemm", "MatMul", "MatMulInteger"),
        *("QLinearConv", "QLinearMatMul", "QuantizeLinear", "DequantizeLinear"),
        *("BatchNormalization", "InstanceNormalization", "LayerNormalization"),
        *("GroupNormalization", "RMSNormalization", "LSTM", "GRU", "RNN"),
    ]
)
"""Operators whose results have extents that no operand's content tells."""

SMALL = 256
"""Constants of up to this many elements are shown to the shape inference (axes, sizes, pads)."""


def infer(draft: Draft, book: RuleBook, *, keep: frozenset[str]) -> None:
    """Type every tensor and fold what is constant, in one walk.

    Args:
        draft: nodes in topological order.
        book: rules; an operator without one is replaced by its function body if it has one.
        keep: kinds of operators that are not folded yet.

    Raises:
        UserError: unknown operators (all of them), wrong operand types, extents that depend on
            the input's content.
    """
    refuse_unknown(draft, book)
    check_sizes(draft, draft.inputs)
    walk = Walk(draft, book, keep)
    pending = draft.nodes[::-1]
    while pending:
        pending += walk.visit(pending.pop())[::-1]
    draft.nodes = walk.kept
    open_outputs(draft)
    output_counts(draft)


class Walk:
    """The state of one walk: the nodes that stay."""

    def __init__(self, draft: Draft, book: RuleBook, keep: frozenset[str]) -> None:
        self.draft = draft
        self.book = book
        self.keep = keep
        self.kept: list[Node] = []

    def visit(self, node: Node) -> list[Node]:
        """Keep, fold or replace a node; return the nodes to visit in its stead."""
        draft = self.draft
        refuse_extents(draft, node)
        newer = next(
            (n for n in (rewrite(draft, node) for rewrite in REWRITES) if n is not None), None
        )
        if newer is not None:
            return newer
        if node.kind not in self.keep and fold(draft, node):
            return []
        if all(name in draft.tensors for name in node.outputs if name):
            self.kept.append(node)
            return []
        if not self.book.rules_for(node.domain, node.kind):
            body = body_of(draft, node)
            if body:
                return body
        self.refuse_without_rule(node)
        if not count_results(draft, node, self.book):
            draft.tensors |= outputs_of(draft, node, self.book)
            follow_counts(draft, node, self.book)
        check_sizes(draft, node.outputs)
        keep_empty(draft, node)
        if not any(node.outputs):
            return []
        if node.kind in self.keep or not interpret_constants(draft, node, self.book):
            self.kept.append(node)
        return []

    def refuse_without_rule(self, node: Node) -> None:
        """Refuse an operator of a domain other than ONNX's that has no rule.

        Raises:
            UserError: names it. (The profile stage refuses those of ONNX, with the reasons.)
        """
        if not node.domain or (node.domain, node.kind) in CONTRIB:
            return
        if self.book.rules_for(node.domain, node.kind):
            return
        raise UserError(
            f"no rule computes the operator '{node.kind}' of the domain '{node.domain}'",
            where=f"{self.draft.where}: node '{node.label}'",
            fix="add a rule in a pack (`packs:` in dlbuild.yaml), or replace the operator",
        )


def keep_empty(draft: Draft, node: Node) -> None:
    """Make results without elements constants, and leave them out of the node."""
    empty = [name for name in node.outputs if name and draft.tensors[name].count == 0]
    for name in empty:
        if name not in draft.outputs:
            tensor = draft.tensors[name]
            draft.keep(name, np.zeros(tensor.shape, numpy_dtype(tensor.dtype)))
            node.outputs[node.outputs.index(name)] = ""
    if empty and node.kind in PARTS:
        node.outputs = [name for name in node.outputs if name]


def refuse_unknown(draft: Draft, book: RuleBook) -> None:
    """Refuse operators that neither ONNX nor a rule defines, all in one message.

    Raises:
        UserError: lists them with their nodes.
    """
    unknown: dict[str, list[str]] = {}
    for node in draft.nodes:
        is_ours = (node.domain, node.kind) in CONTRIB.keys() | ADOPTED
        is_known = is_ours or schema_of(node) is not None
        if not is_known and not book.rules_for(node.domain, node.kind):
            name = f"{node.domain}.{node.kind}" if node.domain else node.kind
            unknown.setdefault(name, []).append(node.label)
    if not unknown:
        return
    listed = [
        f"{name}: " + ", ".join(f"node '{label}'" for label in labels)
        for name, labels in unknown.items()
    ]
    raise UserError(
        "the model has operators that are unknown"
        if len(unknown) > 1
        else f"the model has an operator that is unknown: {next(iter(unknown))}",
        where=draft.where,
        details=listed,
        why="neither ONNX nor a rule says what they compute",
        fix="add a rule in a pack (`packs:` in dlbuild.yaml), or replace the operator",
    )


def schema_of(node: Node) -> onnx.defs.OpSchema | None:
    """Return ONNX's definition of a node's operator."""
    try:
        return onnx.defs.get_schema(node.kind, node.opset, node.domain)
    except onnx.defs.SchemaError:
        pass
    try:
        # Exporters write operators into opsets that do not have them yet; runtimes accept it.
        return onnx.defs.get_schema(node.kind, node.domain)
    except onnx.defs.SchemaError:
        return None


def outputs_of(draft: Draft, node: Node, book: RuleBook) -> dict[str, Tensor]:
    """Return the types and extents of a node's results.

    Raises:
        UserError: they cannot be told before the model runs, or the operands do not fit.
    """
    schema = schema_of(node)
    if schema is None or (node.domain, node.kind) in CONTRIB:
        return outside_results(draft, node, book)
    check_types(draft, node, schema)
    found = inferred(draft, node, schema)
    results: dict[str, Tensor] = {}
    for name in filter(None, node.outputs):
        kind = found.get(name)
        tensor = tensor_of(name, kind) if kind is not None else None
        tensor = tensor or tied(draft, node, book).get(name) or draft.declared.get(name)
        if tensor is None:
            raise unknown_extents(draft, node, name, kind)
        results[name] = tensor
    return results


def outside_results(draft: Draft, node: Node, book: RuleBook) -> dict[str, Tensor]:
    """Return the results of an operator that ONNX does not define."""
    multiplied = product(draft, node)
    if multiplied is not None:
        return {multiplied.name: multiplied}
    replacement = stand_in(draft, node)
    if replacement is not None:
        dtype, proxy = replacement
        schema = schema_of(proxy)
        assert schema is not None, f"{proxy.kind} is an ONNX operator"
        found = inferred(draft, proxy, schema, floats=True)
        name = node.outputs[0]
        tensor = tensor_of(name, found[proxy.outputs[0]])
        if tensor is not None:
            return {name: Tensor(name, dtype, tensor.shape)}
    results = {**draft.declared, **tied(draft, node, book)}
    for name in filter(None, node.outputs):
        if name not in results:
            raise unknown_extents(draft, node, name, None)
    return {name: results[name] for name in node.outputs if name}


def tied(draft: Draft, node: Node, book: RuleBook) -> Mapping[str, Tensor]:
    """Return the results that an operator's rule ties to its operands."""
    asked = alone(draft, replace(node, outputs=[]), book)
    op = replace(asked.ops[0], outputs=tuple(node.outputs))
    return results_of(op, asked, book)


def inferred(
    draft: Draft, node: Node, schema: onnx.defs.OpSchema, *, floats: bool = False
) -> Mapping[str, onnx.TypeProto]:
    """Ask onnx for the results of a node.

    Args:
        draft: its operands.
        node: the node.
        schema: ONNX's definition of its operator.
        floats: see every operand as float32 (for a stand-in of an operator on integers).

    Raises:
        UserError: the operands' extents contradict each other.
    """
    types = {
        name: helper.make_tensor_type_proto(
            onnx.TensorProto.FLOAT if floats else ONNX_OF[draft.dtype(name)], draft.shape(name)
        )
        for name in node.inputs
        if name
    }
    contents = {
        name: numpy_helper.from_array(draft.constants[name], name)
        for name in node.inputs
        if node.kind not in UNREAD
        and name in draft.constants
        and draft.tensors[name].count <= SMALL
    }
    imports = [helper.make_opsetid(node.domain, schema.since_version)]
    outer = {
        name: helper.make_tensor_type_proto(ONNX_OF[tensor.dtype], tensor.shape)
        for name, tensor in (draft.tensors.items() if node.special else ())
    }
    if node.integer("ceil_mode", 0):
        # Up to 21 the schemas count windows that begin in the padding, which runtimes leave out.
        schema = onnx.defs.get_schema(node.kind, node.domain)
    call: Callable[..., Mapping[str, onnx.TypeProto]] = infer_node_outputs
    try:
        return call(schema, proto_of(node), outer | types, contents, opset_imports=imports)
    except (InferenceError, onnx.checker.ValidationError) as error:
        operands = ", ".join(
            f"'{n}' {draft.dtype(n)}{list(draft.shape(n))}" for n in node.inputs if n
        )
        raise UserError(
            "the operands do not fit the operator",
            where=f"{draft.where}: node '{node.label}' ({node.kind})",
            details=[f"operands: {operands}"],
            why=reason(str(error)),
            fix="check the shapes in the recipe and the export of the model",
        ) from None


def reason(text: str) -> str:
    """Return the sentence of an inference error, without its bracketed prefixes."""
    line = text.strip().splitlines()[0] if text.strip() else "the shape inference refused it"
    return line.rsplit("] ", 1)[-1].strip()


def check_types(draft: Draft, node: Node, schema: onnx.defs.OpSchema) -> None:
    """Refuse an operand of an element type that the operator does not take.

    Raises:
        UserError: names the node, the tensor and the types that are allowed.
    """
    if schema.since_version > node.opset:
        return
    for position, name in enumerate(node.inputs):
        if not name or not schema.inputs:
            continue
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        allowed = formal.types or {formal.type_str}
        dtype = draft.dtype(name)
        text = onnx.TensorProto.DataType.Name(ONNX_OF[dtype]).lower()
        if f"tensor({text})" in allowed:
            continue
        ours = sorted(
            dtype_name
            for number, dtype_name in DTYPE_OF.items()
            if f"tensor({onnx.TensorProto.DataType.Name(number).lower()})" in allowed
        )
        if not ours:
            continue
        raise UserError(
            f"input {position} ('{name}') is {dtype}, which the operator does not take",
            where=f"{draft.where}: node '{node.label}' ({node.kind})",
            why=f"ONNX defines it for {', '.join(ours)}",
            fix="this is not a valid ONNX model: quantised layers are written with "
            "QuantizeLinear and DequantizeLinear; export it again",
        )


def unknown_extents(draft: Draft, node: Node, name: str, kind: onnx.TypeProto | None) -> UserError:
    """Return the error for a result whose extents cannot be told."""
    where = f"{draft.where}: node '{node.label}' ({node.kind})"
    if kind is not None and not kind.HasField("tensor_type"):
        return UserError(
            f"the result '{name}' is not a tensor",
            where=where,
            why="sequences, maps and optional values have no fixed place in memory",
            fix="export the model with tensors only",
        )
    if schema_of(node) is None:
        return UserError(
            f"the shape of '{name}' is not known",
            where=where,
            why="ONNX does not define the operator, and its rule does not tie its results to its"
            " operands",
            fix="add a value_info with the type and shape of each result to the model",
        )
    return UserError(
        f"the shape of '{name}' is not known before the model runs",
        where=where,
        why="it depends on what the input holds; firmware has fixed buffers",
        fix="bind the inputs' shapes in the recipe, or export the model without this operator",
    )
