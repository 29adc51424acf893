"""Operators whose operands are all constant, computed by the build.

Operators that only move, count, compare or round once for each element are computed by onnx's
evaluator: their result has one right value. Sums and functions such as exp have many, so they are
left to the interpreter of the rules, whose order is fixed.
"""

import numpy as np
import onnx
from onnx import helper

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Fact, Graph, Op, Value
from dlbuild.ir.weights import Array
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.match import match
from dlbuild.stages.parse_file import array_of
from dlbuild.stages.parse_graph import dense, proto_of
from dlbuild.stages.rewrites.draft import Draft, Node

EXACT = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Clip",
        "Compress",
        "Concat",
        "ConstantOfShape",
        "DepthToSpace",
        "DequantizeLinear",
        "Div",
        "Equal",
        "Expand",
        "EyeLike",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "OneHot",
        "Or",
        "Pad",
        "QuantizeLinear",
        "Range",
        "Reciprocal",
        "Relu",
        "Reshape",
        "Round",
        "ScatterElements",
        "ScatterND",
        "Sign",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
        "Xor",
    ]
)
# After `modernize` a node has a form that this operator set takes; older ones lack evaluators.
EVALUATED_AS = 21
# Sums and products of integers are exact in any order.
EXACT_ON_INTEGERS = frozenset(
    ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "CumSum", "MatMul", "Sum"]
)


def fold(draft: Draft, node: Node) -> bool:
    """Compute a node whose operands are constant; say whether its results are constants now."""
    if node.domain:
        return False
    if node.kind == "Constant":
        draft.keep(node.outputs[0], constant(draft, node))
        return True
    if node.kind in {"Shape", "Size"} and node.inputs[0] in draft.tensors:
        draft.keep(node.outputs[0], extents(draft, node))
        return True
    names = [name for name in node.inputs if name]
    if not names or any(name not in draft.constants for name in names):
        return False
    if node.kind == "Identity" and node.outputs[0] in draft.outputs:
        return False
    results = evaluated(draft, node) if is_exact(draft, node) else None
    if results is None:
        return False
    for name, array in zip(node.outputs, results, strict=True):
        if name:
            draft.keep(name, array)
    return True


def is_exact(draft: Draft, node: Node) -> bool:
    """Say whether the result has one right value, whoever computes it."""
    if node.kind in EXACT:
        return True
    integers = all("int" in draft.dtype(name) for name in node.inputs if name)
    return node.kind in EXACT_ON_INTEGERS and integers


def constant(draft: Draft, node: Node) -> Array:
    """Return the content of a Constant node."""
    where = f"{draft.where}: node '{node.label}' ({node.kind})"
    for attribute in node.special:
        if attribute.name == "value":
            return array_of(attribute.t, where)
        if attribute.name == "sparse_value":
            return dense(attribute.sparse_tensor, where)
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in node.attributes:
            return np.array(node.attributes[name], dtype=dtype)
    raise UserError(
        "the constant holds no numbers",
        where=where,
        why="firmware kernels compute on numbers, not on text",
        fix="remove the text operators from the model before the export",
    )


def extents(draft: Draft, node: Node) -> Array:
    """Return what Shape or Size gives."""
    shape = draft.shape(node.inputs[0])
    if node.kind == "Size":
        return np.array(int(np.prod(shape, dtype=np.int64)), dtype=np.int64)
    end = node.integer("end", len(shape))
    return np.array(shape[node.integer("start", 0) : end], dtype=np.int64)


def evaluated(draft: Draft, node: Node) -> list[Array] | None:
    """Compute a node with onnx's evaluator; None if it cannot."""
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - 100 ms, and few models need it

    message = proto_of(node)
    names = [name for name in node.outputs if name]
    graph = helper.make_graph(
        [message],
        "fold",
        [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.inputs) if name],
        [onnx.ValueInfoProto(name=name) for name in names],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", EVALUATED_AS)])
    feeds = {name: draft.constants[name] for name in node.inputs if name}
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # noqa: BLE001 - its evaluators raise whatever they like; the node then stays
        return None
    arrays = dict(zip(names, (np.asarray(a) for a in found), strict=True))
    return [arrays.get(name, np.zeros(0)) for name in node.outputs]


def interpret_constants(draft: Draft, node: Node, book: RuleBook) -> bool:
    """Compute a node of constant operands by its rule, in the rule's own order.

    The types of its results must be known. Say whether they are constants now.
    """
    names = [name for name in node.inputs if name]
    if node.special or not names or any(name not in draft.constants for name in names):
        return False
    if node.kind == "Identity":
        return False
    graph = alone(draft, node, book)
    try:
        instance = match(graph.ops[0], graph, book)
    except UserError:
        return False
    if not instance.nests:
        return False
    feeds = {
        operand.name: draft.constants[operand.tensor]
        for operand in instance.operands
        if operand.role == "input"
    }
    try:
        found = interpret(instance, feeds)
    except IndexError:
        raise UserError(
            "a constant index is outside the tensor",
            where=f"{draft.where}: node '{node.label}' ({node.kind})",
            fix="export the model again",
        ) from None
    for operand in instance.operands:
        if operand.role == "output":
            draft.keep(operand.tensor, found[operand.name])
    return True


def alone(draft: Draft, node: Node, book: RuleBook) -> Graph:
    """Return a graph of one node."""
    inputs = tuple(dict.fromkeys(name for name in node.inputs if name))
    outputs = tuple(name for name in node.outputs if name)
    attributes = tuple((key, node.attributes[key]) for key in sorted(node.attributes))
    op = Op(
        node.label,
        node.kind,
        tuple(node.inputs),
        tuple(node.outputs),
        attributes,
        node.domain,
        node.opset,
    )
    return Graph(
        draft.where,
        (),
        outputs,
        tuple(draft.tensors[name] for name in (*inputs, *outputs)),
        (op,),
        inputs,
        values_of(draft, (op,), book),
        facts_of(draft, (op,), book),
    )


def values_of(draft: Draft, ops: tuple[Op, ...], book: RuleBook) -> tuple[Value, ...]:
    """Return the contents of the constants that rules declare as structure."""
    found: dict[str, Value] = {}
    for op in ops:
        for position in sorted(book.value_inputs(op)):
            name = op.inputs[position] if position < len(op.inputs) else ""
            if name in draft.constants:
                array = draft.constants[name]
                content = tuple(np.asarray(array).reshape(-1).tolist())
                found[name] = Value(name, tuple(array.shape), content)
    return tuple(found[name] for name in sorted(found))


def facts_of(draft: Draft, ops: tuple[Op, ...], book: RuleBook) -> tuple[Fact, ...]:
    """Return what the structure took from the numbers, and what the rules ask of them."""
    found = dict(draft.facts)
    for op in ops:
        for position in sorted(book.all_zero_inputs(op)):
            name = op.inputs[position] if position < len(op.inputs) else ""
            if name in draft.constants and draft.constants.ask("all_zero", name):
                found[Fact("all_zero", (name,))] = None
        for position in sorted(book.narrow_inputs(op)):
            name = op.inputs[position] if position < len(op.inputs) else ""
            if name in draft.constants and draft.constants.ask("narrow", name):
                found[Fact("narrow", (name,))] = None
    return tuple(sorted(found, key=lambda fact: (fact.kind, fact.tensors)))
