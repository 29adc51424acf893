"""Operators in the form of old operator sets, given the form of the newest that changed them.

What once was an attribute (axes, pads, limits, sizes) is an input now, and a constant of the
graph. `Node.opset` becomes the version that has the new form.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.stages.rewrites.activations import spell_activations
from dlbuild.stages.rewrites.contrib import ADOPTED, DOMAIN
from dlbuild.stages.rewrites.draft import Draft, Node

Rewrite = Callable[[Draft, Node], list[Node] | None]


def modernize(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of a node; None if it has its newest form."""
    if node.domain == DOMAIN:
        return adopted(draft, node)
    if node.domain == TRAINING:
        return each_tensor(draft, node)
    if node.domain:
        return None
    for last, kinds, rewrite in TABLE:
        if node.opset <= last and node.kind in kinds:
            newer = rewrite(draft, node)
            for other in newer or ():
                other.opset = max(other.opset, node.opset, 0 if last == ALWAYS else last + 1)
            return newer
    return None


def adopted(draft: Draft, node: Node) -> list[Node] | None:
    """Give operators of com.microsoft that ONNX has taken over the form of ONNX."""
    if node.kind == "QLinearSoftmax" and node.integer("opset", SOFTMAX_OPSET) < SOFTMAX_OPSET:
        node.attributes["opset"] = SOFTMAX_OPSET
        return softmax(draft, node)
    if node.attributes.pop("channels_last", 0):
        return channels_last(draft, node)
    has_bias = "Gelu" in node.kind and len(node.inputs) > 1
    if (node.domain, node.kind) in ADOPTED and not has_bias:
        node.domain, node.opset = "", ADOPTED_OPSET
        if node.kind == "FastGelu":
            node.kind, node.attributes = "Gelu", {"approximate": "tanh"}
    return None


def channels_last(draft: Draft, node: Node) -> list[Node]:
    """Give an operator whose channels lie last its operand, and its result, in ONNX's order."""
    rank, label = len(draft.shape(node.inputs[0])), node.outputs[0]
    source, result = draft.fresh(f"{label}_first"), draft.fresh(f"{label}_last")
    first, last = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    before = Node("Transpose", [node.inputs[0]], [source], {"perm": first}, f"{node.label}_first")
    after = Node("Transpose", [result], [label], {"perm": last}, f"{node.label}_last")
    before.opset = after.opset = SOFTMAX_OPSET
    node.inputs[0], node.outputs = source, [result]
    return [before, node, after]


def to_input(name: str, position: int) -> Rewrite:
    """Return the rewrite of an attribute that is an integer, or a list of them, to an input."""

    def rewrite(draft: Draft, node: Node) -> list[Node] | None:
        if name not in node.attributes:
            node.opset = max(node.opset, NEWEST)
            return None
        values = node.attributes.pop(name)
        array = np.array(values, dtype=np.int64).reshape(-1)
        set_input(node, position, draft.constant(f"{node.outputs[0]}_{name}", array))
        return [node]

    return rewrite


def set_input(node: Node, position: int, name: str) -> None:
    """Set an input, with absent ones before it."""
    node.inputs += [""] * (position + 1 - len(node.inputs))
    node.inputs[position] = name


def clip(draft: Draft, node: Node) -> list[Node]:
    """Clip up to 10 has its limits as attributes; the default is no limit."""
    dtype = draft.dtype(node.inputs[0])
    for position, name in ((1, "min"), (2, "max")):
        if name in node.attributes:
            limit = np.array(node.number(name, 0.0), dtype=dtype)
            del node.attributes[name]
            set_input(node, position, draft.constant(f"{node.outputs[0]}_{name}", limit))
    return [node]


def dropout(draft: Draft, node: Node) -> list[Node]:
    """Dropout of nothing, and in inference, gives back its operand; its mask is true throughout.

    Raises:
        UserError: it drops elements at random.
    """
    ratio, training = (draft.constants.get(node.input(position)) for position in (1, 2))
    drops_some = ratio is None or bool(ratio != 0)  # half of them by default
    if drops_some and node.input(2) and (training is None or bool(training)):
        raise UserError(
            "Dropout in training mode cannot be built",
            where=f"{draft.where}: node '{node.label}' ({node.kind})",
            why="it needs random numbers",
            fix="export the model for inference",
        )
    if len(node.outputs) > 1 and node.outputs[1]:
        mask = np.ones(draft.shape(node.inputs[0]), dtype=np.bool_)
        draft.keep(node.outputs[1], mask)
    return [Node("Identity", node.inputs[:1], node.outputs[:1], name=node.name, opset=node.opset)]


def pad(draft: Draft, node: Node) -> list[Node]:
    """Pad up to 10 has the pads and the value as attributes (`paddings` in 1)."""
    pads = node.attributes.pop("pads", node.attributes.pop("paddings", ()))
    value = node.number("value", 0.0)
    node.attributes.pop("value", None)
    label = node.outputs[0]
    set_input(node, 1, draft.constant(f"{label}_pads", np.array(pads, dtype=np.int64)))
    if value:
        content = np.array(value, dtype=draft.dtype(node.inputs[0]))
        set_input(node, 2, draft.constant(f"{label}_value", content))
    return [node]


def slices(draft: Draft, node: Node) -> list[Node]:
    """Slice up to 9 has starts, ends and axes as attributes."""
    for position, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        if name in node.attributes:
            values = np.array(node.attributes.pop(name), dtype=np.int64)
            set_input(node, position, draft.constant(f"{node.outputs[0]}_{name}", values))
    return [node]


def split(draft: Draft, node: Node) -> list[Node]:
    """Split up to 17 cuts equally if no sizes are given; before 13 they are an attribute."""
    axis = node.integer("axis", 0)
    if "split" in node.attributes:
        sizes = node.integers("split")
        del node.attributes["split"]
    elif node.input(1):
        node.opset = max(node.opset, NEWEST)
        return [node]
    else:
        extent = draft.shape(node.inputs[0])[axis]
        sizes = (extent // len(node.outputs),) * len(node.outputs)
    set_input(node, 1, draft.integers(f"{node.outputs[0]}_split", sizes))
    return [node]


def upsample(draft: Draft, node: Node) -> list[Node]:
    """Upsample, and Resize of 10, are a Resize that scales from the corner, rounding down."""
    label = node.outputs[0]
    scales = node.input(1)
    if not scales:
        values = node.attributes.pop("scales", ())
        scales = draft.constant(f"{label}_scales", np.array(values, dtype=np.float32))
    attributes = {
        "mode": node.text("mode", "nearest"),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    newer = Node("Resize", [node.inputs[0], "", scales], node.outputs, dict(attributes), node.name)
    newer.opset = NEWEST
    return [newer]


def softmax(draft: Draft, node: Node) -> list[Node]:
    """Softmax up to 12 sees its operand as a matrix, cut before `axis`."""
    shape = draft.shape(node.inputs[0])
    axis = node.integer("axis", 1) % max(len(shape), 1)
    node.attributes["axis"] = -1
    if prod(shape[axis:]) == (shape[-1] if shape else 1):
        return [node]
    label = node.outputs[0]
    matrix = [prod(shape[:axis]), prod(shape[axis:])]
    flat, result = draft.fresh(f"{label}_flat"), draft.fresh(f"{label}_rows")
    there = draft.integers(f"{label}_flat_shape", matrix)
    back = draft.integers(f"{label}_shape", shape)
    before = Node("Reshape", [node.inputs[0], there], [flat], name=f"{node.label}_flat")
    after = Node("Reshape", [result, back], [label], name=f"{node.label}_back")
    before.opset = after.opset = SOFTMAX_OPSET
    node.name = node.label
    node.inputs[0], node.outputs = flat, [result]
    return [before, node, after]


def reshape(draft: Draft, node: Node) -> list[Node] | None:
    """Reshape up to 4 has the shape as an attribute."""
    node.attributes.pop("consumed_inputs", None)
    return to_input("shape", 1)(draft, node)


def batch_normalization(draft: Draft, node: Node) -> list[Node] | None:
    """BatchNormalization up to 13 has attributes for training, and results that only it needs."""
    if not node.integer("spatial", 1) and len(draft.shape(node.inputs[0])) > OF_CHANNELS:
        return normalization_of_points(draft, node)
    for name in ("consumed_inputs", "is_test", "spatial"):
        node.attributes.pop(name, None)
    node.outputs = node.outputs[:1]
    node.opset = max(node.opset, NEWEST)
    return None


def normalization_of_points(draft: Draft, node: Node) -> list[Node]:
    """BatchNormalization up to 8 may have a mean and a variance for each point of a sample."""
    x, scale, bias, mean, variance = node.inputs
    label, dtype = node.outputs[0], draft.dtype(x)
    least = draft.constant(f"{label}_least", np.array(node.number("epsilon", 1e-5), dtype))
    steps = (
        ("Sub", (x, mean)),
        ("Add", (variance, least)),
        ("Sqrt", (f"{label}_variance",)),
        ("Div", (f"{label}_centred", f"{label}_deviation")),
        ("Mul", (f"{label}_normal", scale)),
        ("Add", (f"{label}_scaled", bias)),
    )
    names = ("centred", "variance", "deviation", "normal", "scaled")
    own = {f"{label}_{name}": draft.fresh(f"{label}_{name}") for name in names}
    results = [*own.values(), label]
    return [
        Node(kind, [own.get(name, name) for name in reads], [result], name=f"{node.label}_{kind}")
        for (kind, reads), result in zip(steps, results, strict=True)
    ]


def broadcast(draft: Draft, node: Node) -> list[Node] | None:
    """Up to 6 the second operand lies at `axis` of the first instead of at its end."""
    axis = node.integer("axis", -1)
    had = node.integer("broadcast", 0)
    for name in ("axis", "broadcast", "consumed_inputs"):
        node.attributes.pop(name, None)
    node.opset = max(node.opset, OLD_BROADCAST + 1)
    if not had or axis < 0:
        return None
    left, right = (draft.shape(name) for name in node.inputs[:2])
    shape = (*right, *(1,) * (len(left) - axis - len(right)))
    label = f"{node.outputs[0]}_b"
    target = draft.integers(f"{label}_shape", shape)
    aligned = draft.fresh(label)
    before = Node("Reshape", [node.inputs[1], target], [aligned], name=f"{node.label}_b")
    node.inputs = [node.inputs[0], aligned]
    return [before, node]


def drop_attributes(*names: str) -> Rewrite:
    """Return the rewrite that drops attributes which have no meaning in inference."""

    def rewrite(draft: Draft, node: Node) -> list[Node] | None:
        del draft
        for name in names:
            node.attributes.pop(name, None)
        node.opset = max(node.opset, OLD_BROADCAST + 1)
        return None

    return rewrite


def recurrent(draft: Draft, node: Node) -> None:
    """Recurrent networks keep their state in their results, so all of these are there.

    Raises:
        UserError: their activations are none that ONNX knows.
    """
    spell_activations(draft, node)
    count = 3 if node.kind == "LSTM" else 2
    node.outputs += [""] * (count - len(node.outputs))
    label = next(filter(None, node.outputs))
    for position, name in enumerate(node.outputs):
        node.outputs[position] = name or draft.fresh(f"{label}_state_{position}")


def one_side(draft: Draft, node: Node) -> None:
    """Say that half of the frequencies are wanted: onnx infers all of them from the default."""
    del draft
    node.attributes.setdefault("onesided", 1)


def each_tensor(draft: Draft, node: Node) -> list[Node] | None:
    """Make a node for each of the tensors that one optimiser updates."""
    del draft
    rate, step, *rest = node.inputs
    count = len(node.outputs) // (2 if len(rest) == 3 * (len(node.outputs) // 2) else 3)
    if count == 1:
        return None
    return [
        replace(
            node,
            inputs=[rate, step, *rest[number::count]],
            outputs=node.outputs[number::count],
            name=f"{node.label}_{number}",
        )
        for number in range(count)
    ]


TRAINING = "ai.onnx.preview.training"
ADOPTED_OPSET = 21
SOFTMAX_OPSET = 13
OLD_BROADCAST = 6
NEWEST = 18
OF_CHANNELS = 2
ALWAYS = 1 << 30

REDUCTIONS = frozenset(
    [
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSumSquare",
    ]
)
BROADCASTING = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Greater",
        "Less",
        "PRelu",
        "Gemm",
    ]
)
IN_PLACE = frozenset(
    [
        "Abs",
        "Ceil",
        "Clip",
        "Elu",
        "Exp",
        "Floor",
        "HardSigmoid",
        "LeakyRelu",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Neg",
        "Reciprocal",
        "Relu",
        "Selu",
        "Sigmoid",
        "Sqrt",
        "Sum",
        "Tanh",
    ]
)

# (last operator set with the old form, operators, rewrite); the first line that fits is applied.
TABLE: tuple[tuple[int, frozenset[str], Rewrite], ...] = (
    (ALWAYS, frozenset({"Dropout"}), dropout),
    (ALWAYS, frozenset({"STFT"}), one_side),
    (ALWAYS, frozenset({"LSTM", "GRU", "RNN"}), recurrent),
    (4, frozenset({"Reshape"}), reshape),
    (OLD_BROADCAST, BROADCASTING, broadcast),
    (10, frozenset({"Clip"}), clip),
    (OLD_BROADCAST, IN_PLACE, drop_attributes("consumed_inputs")),
    (12, frozenset({"Squeeze", "Unsqueeze", "ReduceSum"}), to_input("axes", 1)),
    (17, REDUCTIONS, to_input("axes", 1)),
    (10, frozenset({"Pad"}), pad),
    (9, frozenset({"Slice"}), slices),
    (17, frozenset({"Split"}), split),
    (9, frozenset({"Upsample"}), upsample),
    (10, frozenset({"Resize"}), upsample),
    (9, frozenset({"TopK"}), to_input("k", 1)),
    (12, frozenset({"Softmax", "LogSoftmax", "Hardmax"}), softmax),
    (13, frozenset({"BatchNormalization"}), batch_normalization),
)
