"""From the scores of classes and targets to what an operator of ai.onnx.ml says of them."""

from __future__ import annotations

import numpy as np

from dlbuild.stages.rewrites.ml_writer import Writer

BINARY = 2


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
    own = {"SOFTMAX_ZERO": "SoftmaxZero", "PROBIT": "Probit"}
    if how in own:
        writer.own(own[how], [scores], result)
    elif how not in kinds:
        raise writer.refuse(f"the transformation {how} is not supported", "no rule computes it")
    elif how == "SOFTMAX":
        writer.add(kinds[how], [scores], result, axis=-1)
    else:
        writer.add(kinds[how], [scores], result)


def note_single(writer: Writer, count: int) -> None:
    """Say where ONNX Runtime does not do what ONNX says."""
    how = writer.node.text("post_transform", "NONE")
    if count == 1 and how != "NONE":
        writer.draft.notes.append(
            f"node '{writer.node.label}' passes its one target through {how}, as ONNX says;"
            " ONNX Runtime leaves it as it is"
        )
