"""One node of ONNX as a graph: for rules that are tried on the node cases of onnx."""

from collections.abc import Mapping

import onnx

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Attribute, Fact, Graph, Op, Tensor, Value
from dlbuild.ir.weights import Array, dtype_name
from dlbuild.rulebook.load import RuleBook


def graph_of(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    book: RuleBook,
) -> Graph:
    """Return a model's only node as a graph whose inputs but the first are constants.

    Raises:
        UserError: an attribute is a tensor or a graph.
    """
    (node,) = model.graph.node
    op = Op(
        "node",
        node.op_type,
        tuple(node.input),
        tuple(node.output),
        tuple((a.name, _attribute(a)) for a in node.attribute),
        node.domain,
        model.opset_import[0].version,
    )
    arrays = {**inputs, **outputs}
    known = [op.inputs[i] for i in sorted(book.value_inputs(op)) if op.inputs[i]]
    zeros = [op.inputs[i] for i in sorted(book.all_zero_inputs(op)) if op.inputs[i]]
    return Graph(
        name="case",
        inputs=tuple(inputs)[:1],
        outputs=tuple(outputs),
        tensors=tuple(Tensor(n, dtype_name(a), a.shape) for n, a in arrays.items()),
        ops=(op,),
        constants=tuple(inputs)[1:],
        values=tuple(Value(n, arrays[n].shape, tuple(arrays[n].ravel().tolist())) for n in known),
        facts=tuple(Fact("all_zero", (n,)) for n in zeros if not arrays[n].any()),
    )


def _attribute(proto: onnx.AttributeProto) -> Attribute:
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    if not isinstance(value, int | float):
        raise UserError("an attribute that is a tensor")
    return value
