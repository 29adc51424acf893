"""Operators of ai.onnx.ml in terms of ONNX's own, their numbers as constants of the graph."""

from __future__ import annotations

from collections.abc import Callable

from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.ml_columns import (
    feature_extractor,
    feature_vectorizer,
    imputer,
    label_encoder,
    normalizer,
    one_hot_encoder,
    scaler,
    zip_map,
)
from dlbuild.stages.rewrites.ml_scores import BINARY, class_labels, classify, note_single, transform
from dlbuild.stages.rewrites.ml_svm import svm_classifier, svm_regressor
from dlbuild.stages.rewrites.ml_writer import Writer
from dlbuild.stages.rewrites.trees import tree_sums

DOMAIN = "ai.onnx.ml"


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


TABLE: dict[str, Callable[[Writer], None]] = {
    "ArrayFeatureExtractor": feature_extractor,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": scaler,
    "TreeEnsembleClassifier": tree_classifier,
    "TreeEnsembleRegressor": tree_regressor,
    "ZipMap": zip_map,
}
