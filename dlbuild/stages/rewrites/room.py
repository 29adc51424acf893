"""Operators that compute in room of their own: a further result, which nobody reads."""

from dlbuild.ir.graph import Tensor
from dlbuild.stages.rewrites.draft import Draft, Node

DOMAIN = "dlbuild"


def with_room(draft: Draft, node: Node) -> list[Node] | None:
    """Give a determinant the matrix in which it eliminates; None for other operators."""
    if node.kind != "Det" or node.domain:
        return None
    source, result = node.inputs[0], node.outputs[0]
    shape, dtype = draft.shape(source), draft.dtype(source)
    work = draft.fresh(f"{result}_work")
    draft.declared[result] = Tensor(result, dtype, shape[:-2])
    draft.declared[work] = Tensor(work, dtype, shape)
    return [Node("Determinant", [source], [result, work], {}, node.name, DOMAIN, 1)]
