"""Operators of ai.onnx.ml in terms of ONNX's own, their numbers as constants of the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.weights import Array
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.trees import tree_sums

DOMAIN = "ai.onnx.ml"
OPSET = 13


def ml_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of an operator of ai.onnx.ml; None for others.

    Raises:
        UserError: the operator works on text, or transforms its scores as nothing here does.
    """
    if node.domain != DOMAIN or node.kind not in TABLE:
        return None
    writer = Writer(draft, node)
    TABLE[node.kind](writer)
    return writer.made


class Writer:
    """Adds nodes in place of one."""

    def __init__(self, draft: Draft, node: Node) -> None:
        self.draft = draft
        self.node = node
        self.made: list[Node] = []

    def add(self, kind: str, inputs: list[str], result: str = "", **attributes: int) -> str:
        """Add a node of ONNX's own domain and return the name of its result."""
        name = result or self.draft.fresh(f"{self.node.label}/{kind}")
        label = f"{self.node.label}/{kind}_{len(self.made)}"
        self.made.append(Node(kind, inputs, [name], dict(attributes), label, opset=OPSET))
        return name

    def constant(self, what: str, array: Array) -> str:
        """Add a constant."""
        return self.draft.constant(f"{self.node.label}/{what}", array)

    def floats(self, attribute: str) -> Array:
        """Return a list of reals."""
        value = self.node.attributes.get(attribute, ())
        return np.array(value if isinstance(value, tuple) else (), np.float32)

    def real(self, name: str) -> str:
        """Return a tensor as float32."""
        if self.draft.dtype(name) == "float32":
            return name
        return self.add("Cast", [name], to=1)

    def refuse(self, what: str, why: str) -> UserError:
        """Return the error for what is not supported."""
        return UserError(
            what,
            where=f"{self.draft.where}: node '{self.node.label}' ({self.node.kind})",
            why=why,
            fix="export the model without it, and do this step in your own code",
        )


def zip_map(writer: Writer) -> None:
    """A map from names to numbers is the numbers, in the order of the names."""
    writer.add("Identity", [writer.node.inputs[0]], writer.node.outputs[0])


def normalizer(writer: Writer) -> None:
    """Divide each row by its norm."""
    source, result = writer.real(writer.node.inputs[0]), writer.node.outputs[0]
    if writer.node.text("norm", "MAX") != "MAX":
        order = 1 if writer.node.text("norm", "MAX") == "L1" else 2
        writer.add("LpNormalization", [source], result, axis=-1, p=order)
        return
    axes = writer.constant("axes", np.array([-1], np.int64))
    sizes = writer.add("Abs", [source])
    greatest = writer.draft.fresh(f"{writer.node.label}/greatest")
    newest = Node("ReduceMax", [sizes, axes], [greatest], {"keepdims": 1}, opset=AXES_AS_INPUT)
    writer.made.append(newest)
    writer.add("Div", [source, greatest], result)


def scaler(writer: Writer) -> None:
    """Subtract an offset and multiply by a scale, one for each column."""
    source = writer.real(writer.node.inputs[0])
    offset = writer.constant("offset", writer.floats("offset"))
    scale = writer.constant("scale", writer.floats("scale"))
    moved = writer.add("Sub", [source, offset])
    writer.add("Mul", [moved, scale], writer.node.outputs[0])


def feature_extractor(writer: Writer) -> None:
    """Pick columns."""
    source, places = writer.node.inputs
    shape = writer.draft.shape(source)
    if len(shape) == 1:
        rows = writer.draft.integers(f"{writer.node.label}/rows", [1, *shape])
        source = writer.add("Reshape", [source, rows])
    count = int(np.prod(writer.draft.shape(places), dtype=np.int64))
    flat = writer.draft.integers(f"{writer.node.label}/flat", [count])
    picked = writer.add("Reshape", [places, flat])
    writer.add("Gather", [source, picked], writer.node.outputs[0], axis=-1)


def linear_regressor(writer: Writer) -> None:
    """Compute a sum of weighed columns for each target."""
    count = max(writer.node.integer("targets", 1), 1)
    scores = linear(writer, count)
    note_single(writer, count)
    transform(writer, scores, writer.node.outputs[0])


def linear_classifier(writer: Writer) -> None:
    """Compute the scores of the classes, and the class with the greatest one."""
    columns = writer.draft.shape(writer.node.inputs[0])[-1]
    intercepts = len(writer.floats("intercepts"))
    rows = intercepts or len(writer.floats("coefficients")) // max(columns, 1)
    classify(writer, linear(writer, rows), rows)


def linear(writer: Writer, rows: int) -> str:
    """Return the product with the coefficients, and the intercepts added."""
    source = writer.real(writer.node.inputs[0])
    shape = writer.draft.shape(writer.node.inputs[0])
    if len(shape) == 1:
        matrix = writer.draft.integers(f"{writer.node.label}/row", [1, *shape])
        source = writer.add("Reshape", [source, matrix])
    given = writer.floats("coefficients")
    used = given[: rows * shape[-1]]
    if len(given) != len(used):  # some exporters write more; runtimes take the first
        writer.draft.notes.append(
            f"node '{writer.node.label}' has {len(given)} coefficients, of which"
            f" {rows} x {shape[-1]} are used"
        )
    weights = used.reshape(rows, -1)
    inputs = [source, writer.constant("coefficients", weights)]
    if len(writer.floats("intercepts")):
        inputs.append(writer.constant("intercepts", writer.floats("intercepts")))
    return writer.add("Gemm", inputs, transB=1)


def tree_regressor(writer: Writer) -> None:
    """Add up what the leaves say of each target."""
    count = max(writer.node.integer("n_targets", 1), 1)
    scores = with_base(writer, tree_sums(writer.draft, writer.node, writer.made, "target", count))
    note_single(writer, count)
    transform(writer, scores, writer.node.outputs[0])


def note_single(writer: Writer, count: int) -> None:
    """Say where ONNX Runtime does not do what ONNX says."""
    if count == 1 and writer.node.text("post_transform", "NONE") == "LOGISTIC":
        writer.draft.notes.append(
            f"node '{writer.node.label}' passes its one target through LOGISTIC, as ONNX says;"
            " ONNX Runtime leaves it as it is"
        )


def tree_classifier(writer: Writer) -> None:
    """Add up what the leaves say of each class, and take the class with the greatest sum."""
    labels = class_labels(writer)
    ids = writer.node.integers("class_ids")
    is_binary = len(labels) == BINARY and len(set(ids)) == 1
    if is_binary:
        writer.node.attributes["class_ids"] = (0,) * len(ids)
    count = 1 if is_binary else len(labels)
    sums = tree_sums(writer.draft, writer.node, writer.made, "class", count)
    classify(writer, with_base(writer, sums), count)


def with_base(writer: Writer, sums: str) -> str:
    """Add the values that a sum begins with."""
    base = writer.floats("base_values")
    return writer.add("Add", [sums, writer.constant("base", base)]) if len(base) else sums


def class_labels(writer: Writer) -> tuple[int, ...]:
    """Return the classes' numbers; of classes with names their places."""
    named = writer.node.attributes.get("classlabels_strings", ())
    if isinstance(named, tuple) and named:
        label = writer.node.outputs[0]
        if label in writer.draft.outputs or label in writer.draft.consumers():
            raise writer.refuse("the class is text", "firmware kernels compute on numbers")
        return tuple(range(len(named)))
    return writer.node.integers("classlabels_int64s", writer.node.integers("classlabels_ints"))


def classify(writer: Writer, scores: str, count: int) -> None:
    """Write the class with the greatest score, and the scores."""
    labels = class_labels(writer)
    if count == 1 and len(labels) == BINARY:
        if writer.node.text("post_transform", "NONE") != "LOGISTIC":
            raise writer.refuse(
                "one score for two classes is not supported without LOGISTIC",
                "runtimes decide by the weights' signs what the score means",
            )
        scores = writer.add("Concat", [writer.add("Neg", [scores]), scores], axis=-1)
    if writer.node.outputs[0]:
        best = writer.add("ArgMax", [scores], axis=-1, keepdims=0)
        table = writer.constant("labels", np.array(labels, np.int64))
        writer.add("Gather", [table, best], writer.node.outputs[0], axis=0)
    if len(writer.node.outputs) > 1 and writer.node.outputs[1]:
        transform(writer, scores, writer.node.outputs[1])


def transform(writer: Writer, scores: str, result: str) -> None:
    """Write the scores as the operator wants them."""
    how = writer.node.text("post_transform", "NONE")
    kinds = {"NONE": "Identity", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}
    if how not in kinds:
        raise writer.refuse(f"the transformation {how} is not supported", "no rule computes it")
    if how == "SOFTMAX":
        writer.add(kinds[how], [scores], result, axis=-1)
    else:
        writer.add(kinds[how], [scores], result)


def label_encoder(writer: Writer) -> None:
    """Look each number up in a list; one comparison for each entry."""
    source, result = writer.node.inputs[0], writer.node.outputs[0]
    keys, values = listed(writer, "keys"), listed(writer, "values")
    if keys is None or values is None or len(keys) > MOST_KEYS:
        raise writer.refuse(
            "this list of labels is not supported",
            f"only numbers are looked up, and among {MOST_KEYS} at most",
        )
    default = writer.node.attributes.get("default_int64", -1)
    if values.dtype == np.float32:
        default = writer.node.attributes.get("default_float", -0.0)
    shape = writer.draft.integers(f"{writer.node.label}/shape", writer.draft.shape(source))
    start = writer.constant("default", np.array(default, values.dtype))
    found = writer.add("Expand", [start, shape])
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        if key != key:  # noqa: PLR0124 - a key that is not a number
            test = writer.add("IsNaN", [source])
        else:
            test = writer.add("Equal", [source, writer.constant(f"key_{number}", key)])
        found = writer.add("Where", [test, writer.constant(f"value_{number}", value), found])
    writer.add("Identity", [found], result)


def listed(writer: Writer, name: str) -> Array | None:
    """Return a list of numbers among the attributes, whichever type it has."""
    for suffix, dtype in (("int64s", np.int64), ("floats", np.float32)):
        value = writer.node.attributes.get(f"{name}_{suffix}")
        if isinstance(value, tuple):
            return np.array(value, dtype)
    return None


BINARY = 2
MOST_KEYS = 256
AXES_AS_INPUT = 18

TABLE: dict[str, Callable[[Writer], None]] = {
    "ArrayFeatureExtractor": feature_extractor,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "Scaler": scaler,
    "TreeEnsembleClassifier": tree_classifier,
    "TreeEnsembleRegressor": tree_regressor,
    "ZipMap": zip_map,
}
