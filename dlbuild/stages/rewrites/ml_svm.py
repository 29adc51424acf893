"""Support vector machines in terms of ONNX's own operators."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from dlbuild.ir.weights import Array
from dlbuild.stages.rewrites.draft import check_known
from dlbuild.stages.rewrites.ml_scores import BINARY, class_labels, transform
from dlbuild.stages.rewrites.ml_writer import Writer

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def svm_regressor(writer: Writer) -> None:
    """Add up what each support vector has to do with the input, or the weighed columns."""
    weights = writer.floats("coefficients")
    count = writer.node.integer("n_supports", 0)
    if not len(weights) or not len(writer.floats("rho")):
        raise writer.refuse(
            "a support vector machine without coefficients, or without rho, computes nothing",
            "the attributes 'coefficients' and 'rho' are missing or empty",
        )
    if count:
        source = likeness(writer, writer.floats("support_vectors").reshape(count, -1))
    else:
        source = writer.matrix(writer.node.inputs[0])
    rho = writer.floats("rho")[:1]
    inputs = [source, writer.constant("weights", weights[:, None]), writer.constant("rho", rho)]
    is_one_class = bool(writer.node.integer("one_class", 0))
    if not is_one_class:
        transform(writer, writer.add("Gemm", inputs), writer.node.outputs[0])
        return
    inside = above_zero(writer, writer.add("Gemm", inputs))
    one, other = (writer.constant(n, np.array(v, np.float32)) for n, v in (("in", 1), ("out", -1)))
    writer.add("Where", [inside, one, other], writer.node.outputs[0])


def svm_classifier(writer: Writer) -> None:
    """Let each pair of classes have a score, whose sign is a vote for one of them."""
    labels, sizes = class_labels(writer), writer.node.integers("vectors_per_class")
    if not sizes:
        raise writer.refuse(
            "a support vector machine without support vectors is not supported",
            "runtimes differ in what its classes are",
        )
    vectors = writer.floats("support_vectors").reshape(sum(sizes), -1)
    pairs = list(combinations(range(len(sizes)), 2))
    scores = writer.add(
        "Gemm",
        [
            likeness(writer, vectors),
            writer.constant("weights", weights_of(writer, sizes, pairs)),
            writer.constant("rho", writer.floats("rho")[: len(pairs)]),
        ],
    )
    if writer.node.outputs[0]:
        best = writer.add("ArgMax", [votes(writer, scores, len(sizes), pairs)], axis=-1, keepdims=0)
        table = writer.constant("labels", np.array(labels, np.int64))
        writer.add("Gather", [table, best], writer.node.outputs[0], axis=0)
    if len(writer.node.outputs) > 1 and writer.node.outputs[1]:
        if len(writer.floats("prob_a")):
            scores = probabilities(writer, scores, len(sizes), len(pairs))
        elif len(sizes) == BINARY:
            require_plain(writer)
            scores = writer.add("Concat", [writer.add("Neg", [scores]), scores], axis=-1)
        transform(writer, scores, writer.node.outputs[1])


def probabilities(writer: Writer, scores: str, count: int, n_pairs: int) -> str:
    """Return the probability of each class, from the scores of pairs and what was fitted to them.

    Raises:
        UserError: there is not a number for each pair.
    """
    fitted = [writer.floats(f"prob_{letter}") for letter in "ab"]
    if any(len(numbers) != n_pairs for numbers in fitted):
        raise writer.refuse(
            f"{n_pairs} pairs of classes have {' and '.join(str(len(n)) for n in fitted)} numbers",
            "'prob_a' and 'prob_b' have one for each pair",
        )
    names = [writer.constant(letter, array) for letter, array in zip("ab", fitted, strict=True)]
    shape = writer.draft.shape(writer.node.inputs[0])
    rows = shape[0] if len(shape) > 1 else 1
    shapes = [(rows, count), (count, count), (count,)]
    return writer.own("CoupledProbabilities", [scores, *names], shapes=shapes)


def require_plain(writer: Writer) -> None:
    """Refuse transformations of the scores of two classes that runtimes do not carry out.

    Raises:
        UserError: the transformation is one of them.
    """
    how = writer.node.text("post_transform", "NONE")
    if how not in {"NONE", "LOGISTIC"}:
        raise writer.refuse(
            f"{how} of the scores of two classes is not supported",
            "runtimes leave out the transformation",
        )


def weights_of(writer: Writer, sizes: tuple[int, ...], pairs: list[tuple[int, int]]) -> Array:
    """Return the weight of each support vector in the score of each pair of classes.

    The coefficients have a row less than there are classes: a vector's own class has none.
    """
    given = writer.floats("coefficients").reshape(len(sizes) - 1, sum(sizes))
    ends = np.cumsum((0, *sizes))
    weights = np.zeros((sum(sizes), len(pairs)), np.float32)
    for number, (one, other) in enumerate(pairs):
        for own, row in ((one, other - 1), (other, one)):
            part = slice(ends[own], ends[own + 1])
            weights[part, number] = given[row, part]
    return weights


def votes(writer: Writer, scores: str, count: int, pairs: list[tuple[int, int]]) -> str:
    """Count the votes for each class: of a pair the first if the score is positive."""
    for_first, for_other = np.zeros((2, len(pairs), count), np.float32)
    for number, (one, other) in enumerate(pairs):
        for_first[number, one] = for_other[number, other] = 1
    is_first = writer.add("Cast", [above_zero(writer, scores)], to=1)
    turned = writer.constant("turned", for_first - for_other)
    return writer.add("Gemm", [is_first, turned, writer.constant("start", for_other.sum(0))])


def above_zero(writer: Writer, name: str) -> str:
    """Say of each number whether it is positive."""
    return writer.add("Greater", [name, writer.constant("zero", np.array(0, np.float32))])


def likeness(writer: Writer, vectors: Array) -> str:
    """Return for each row of the input how like each support vector it is."""
    gamma, start, degree = (*writer.floats("kernel_params").tolist(), 0.0, 0.0, 0.0)[:3]
    source = writer.matrix(writer.node.inputs[0])
    kind = writer.node.text("kernel_type", "LINEAR")
    check_known(writer.draft, writer.node, "kernel_type", [kind], KERNELS)
    table = writer.constant("vectors", vectors)

    def number(what: str, value: float) -> str:
        return writer.constant(what, np.array(value, np.float32))

    if kind == "RBF":
        apart = squared_distance(writer, source, table, len(vectors))
        return writer.add("Exp", [writer.add("Mul", [apart, number("gamma", -gamma)])])
    product = writer.add("Gemm", [source, table], transB=1)
    if kind == "LINEAR":
        return product
    scaled = writer.add("Mul", [product, number("gamma", gamma)])
    moved = writer.add("Add", [scaled, number("coef0", start)])
    if kind == "SIGMOID":
        return writer.add("Tanh", [moved])
    return writer.add("Pow", [moved, number("degree", degree)])


def squared_distance(writer: Writer, source: str, table: str, count: int) -> str:
    """Add our own operator: the squared distance of each row to each vector."""
    shape = writer.draft.shape(writer.node.inputs[0])
    rows = shape[0] if len(shape) > 1 else 1
    return writer.own("SquaredDistance", [source, table], shapes=[(rows, count)])
