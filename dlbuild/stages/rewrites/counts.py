"""Results whose size only the run knows: greatest extents, and a count beside them."""

from collections.abc import Mapping
from dataclasses import replace

import onnx

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Count, Tensor
from dlbuild.rulebook.bind import Unfit
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.match import match
from dlbuild.rulebook.run_time import followers, greatest, has_count
from dlbuild.stages.parse_shapes import DTYPE_OF
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.fold import alone

EXTENTS = frozenset({"Shape", "Size"})
RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def count_results(draft: Draft, node: Node, book: RuleBook) -> bool:
    """Give the results of an operator that finds or picks their greatest extents, and a count.

    Say whether it is such an operator.

    Raises:
        UserError: the greatest extents are not known either.
    """
    asked = alone(draft, replace(node, outputs=[]), book)
    op = replace(asked.ops[0], name=node.label)
    if not has_count(op, book):
        return False
    for name in node.inputs:
        if name in draft.counts:
            raise uncounted(draft, node, draft.counts[name])
    try:
        found = greatest(op, asked, book)
    except Unfit as reason:
        raise UserError(
            "no rule fits it", where=where_of(draft, node), details=[str(reason)]
        ) from None
    last = max(found)
    counted = next(name for name in node.outputs if name)
    count = draft.tensor(f"{counted}_count", "int32", ())
    for position, name in enumerate(node.outputs):
        if name:
            most = found[position]
            draft.tensors[name] = Tensor(name, dtype_of(draft, node, position), most.shape)
            if most.axis is not None and draft.tensors[name].count:
                draft.counts[name] = Count(name, most.axis, count)
    node.outputs += [""] * (last - len(node.outputs))
    node.outputs.append(count)
    return True


def dtype_of(draft: Draft, node: Node, position: int) -> str:
    """Return a result's type as ONNX defines it: one of an operand, or one of its own."""
    schema = onnx.defs.get_schema(node.kind, node.opset, node.domain)
    formal = schema.outputs[position].type_str
    for given, name in zip(schema.inputs, node.inputs, strict=False):
        if given.type_str == formal and name:
            return draft.dtype(name)
    number = onnx.TensorProto.DataType.Value(formal.removeprefix("tensor(").rstrip(")").upper())
    return DTYPE_OF[number]


def follow_counts(draft: Draft, node: Node, book: RuleBook) -> None:
    """Let what is computed slice by slice from a counted tensor have its count.

    Raises:
        UserError: a result needs more than one slice, or slices of two counts.
    """
    for name in dict.fromkeys(node.inputs):
        known = draft.counts.get(name)
        if known is None:
            continue
        found: Mapping[str, int] | None = reshaped(draft, node, known)
        if found is None:
            graph = alone(draft, node, book)
            alike = {n for n, other in draft.counts.items() if other.count == known.count}
            found = followers(match(graph.ops[0], graph, book), name, known.axis, alike)
        if found is None:
            raise uncounted(draft, node, known)
        for result, axis in found.items():
            count = Count(result, axis, known.count)
            if draft.counts.setdefault(result, count) != count:
                raise uncounted(draft, node, known)


def reshaped(draft: Draft, node: Node, known: Count) -> dict[str, int] | None:
    """Return where the counted axis is in a result that differs in axes of 1 alone."""
    if node.kind not in RESHAPES or node.domain:
        return None
    before, after = draft.shape(node.inputs[0]), draft.shape(node.outputs[0])
    kept = [at for at, extent in enumerate(before) if extent > 1]
    places = [at for at, extent in enumerate(after) if extent > 1]
    if [before[at] for at in kept] != [after[at] for at in places] or known.axis not in kept:
        return None
    return {node.outputs[0]: places[kept.index(known.axis)]}


def refuse_extents(draft: Draft, node: Node) -> None:
    """Refuse to take the greatest extents for those that a tensor has.

    Raises:
        UserError: the node asks for the extents of a counted tensor.
    """
    known = draft.counts.get(node.input(0))
    if known is not None and node.kind in EXTENTS and not node.domain:
        raise uncounted(draft, node, known)


def output_counts(draft: Draft) -> None:
    """Let each output with a count be followed by it."""
    outputs: list[str] = []
    for name in draft.outputs:
        outputs.append(name)
        known = draft.counts.get(name)
        if known is not None and known.count not in (*outputs, *draft.outputs):
            outputs.append(known.count)
    draft.outputs = outputs


def uncounted(draft: Draft, node: Node, known: Count) -> UserError:
    """Return the error for an operator that would need the count before the model runs."""
    return UserError(
        f"how many slices axis {known.axis} of '{known.tensor}' has is only known when the model"
        " runs",
        where=where_of(draft, node),
        why="this operator would compute with what lies behind the last one; only operators that"
        " make each slice of their result from the same slice can follow",
        fix=f"let '{known.tensor}' be an output of the model, and compute the rest behind it in C",
    )


def where_of(draft: Draft, node: Node) -> str:
    """Return the place of a node, for messages."""
    return f"{draft.where}: node '{node.label}' ({node.kind})"
