"""Whether one tensor of all samples is near enough to the reference, and what near enough is."""

from collections.abc import Sequence
from dataclasses import replace

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.weights import Array
from dlbuild.run.verify_compare import Comparison, Tolerance, compare, limit_for
from dlbuild.run.verify_slack import Question, evaluated, narrowest, slack_of


def judged(
    question: Question, kernel: str, ours: Sequence[Array], tolerance: Tolerance
) -> Comparison:
    """Compare what the C gave with what is due.

    A recipe's own tolerance is the whole of what is allowed; by default a tensor beyond the limit
    of its type is asked about once more (see `verify_slack`).

    Args:
        question: the tensor, and what is due.
        kernel: the function that made it, empty for a whole run.
        ours: what the C gave for each sample.
        tolerance: how near is near enough.
    """
    graph = question.model.graph
    tensor = graph.tensor[question.tensor]
    pairs = list(zip(ours, question.due, strict=True))
    narrow = tensor.dtype
    if DTYPES[narrow].kind == "float":
        narrow = narrowest(graph, question.tensor, question.known[0])
    limit = limit_for(narrow, tolerance, question.n_steps)
    text = str(limit) if narrow == tensor.dtype else f"{limit} ({narrow} before it)"
    found = replace(compare(tensor, kernel, pairs, limit), limit=text)
    if found.passed or tolerance != Tolerance():
        return found
    slack = slack_of(question)
    if slack is not None:
        again = compare(tensor, kernel, pairs, limit, slack.arrays)
        return replace(again, limit=f"{text}, or {slack.why}")
    theirs = evaluated(question) if kernel else None
    if theirs is not None:
        again = compare(tensor, kernel, list(zip(ours, theirs, strict=True)), limit)
        if again.passed:
            return replace(again, limit=f"{text} from onnx's evaluator, which the reference is not")
    return found
