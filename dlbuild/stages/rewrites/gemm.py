"""MatMul of matrices followed by the addition of a constant bias: one Gemm."""

from dlbuild.stages.rewrites.draft import Draft, Node

OPSET = 13


def join_bias(draft: Draft) -> None:
    """Join each MatMul and the Add of a bias after it."""
    producers, consumers = draft.producers(), draft.consumers()
    dropped: set[int] = set()
    for node in draft.nodes:
        if node.kind != "Add" or node.domain:
            continue
        for product, bias in (node.inputs[:2], node.inputs[1::-1]):
            before = producers.get(product)
            if before is None or before.kind != "MatMul" or before.domain:
                continue
            if len(consumers[product]) != 1 or not draft.is_plain(product) or product == bias:
                continue
            if not fits(draft, before, bias, producers) or id(before) in dropped:
                continue
            node.kind, node.inputs = "Gemm", [*before.inputs, bias]
            node.opset = max(OPSET, node.opset)
            dropped.add(id(before))
            break
    draft.nodes = [node for node in draft.nodes if id(node) not in dropped]
    draft.sort()


def fits(draft: Draft, product: Node, bias: str, producers: dict[str, Node]) -> bool:
    """Say whether a product of two matrices and a constant make a Gemm."""
    shapes = [draft.shape(name) for name in product.inputs]
    if any(len(shape) != 2 for shape in shapes):  # noqa: PLR2004 - matrices
        return False
    rows, columns = draft.shape(product.outputs[0])
    shape = draft.shape(bias)
    fitting = len(shape) <= 2 and all(  # noqa: PLR2004 - at most a matrix
        have in {1, want} for have, want in zip(shape[::-1], (columns, rows), strict=False)
    )
    return fitting and is_constant_like(draft, bias, producers)


def is_constant_like(draft: Draft, name: str, producers: dict[str, Node]) -> bool:
    """Say whether a tensor is a constant, or a constant of integers made real."""
    if name in draft.constants:
        return True
    node = producers.get(name)
    return (
        node is not None
        and node.kind == "DequantizeLinear"
        and all(i in draft.constants for i in node.inputs if i)
    )
