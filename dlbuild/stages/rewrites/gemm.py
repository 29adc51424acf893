"""MatMul followed by the addition of a constant bias: one Gemm.

Of quantised operands also where the left one is more than a matrix, seen as one of all its rows:
integers need the bias before they are rounded.
"""

from math import prod

from dlbuild.stages.rewrites.draft import Draft, Node

OPSET = 13


def join_bias(draft: Draft) -> None:
    """Join each MatMul and the Add of a bias after it."""
    producers, consumers = draft.producers(), draft.consumers()
    dropped: set[int] = set()
    added: list[Node] = []
    for node in draft.nodes:
        if node.kind != "Add" or node.domain:
            continue
        for product, bias in (node.inputs[:2], node.inputs[1::-1]):
            before = producers.get(product)
            if before is None or before.kind != "MatMul" or before.domain:
                continue
            if len(consumers[product]) != 1 or not draft.is_plain(product) or product == bias:
                continue
            if id(before) in dropped or not is_constant_like(draft, bias, producers):
                continue
            if fits(draft, before, bias):
                node.kind, node.inputs = "Gemm", [*before.inputs, bias]
                node.opset = max(OPSET, node.opset)
            elif fits_by_rows(draft, before, bias, producers):
                added += by_rows(draft, node, before, bias)
                dropped.add(id(node))
            else:
                continue
            dropped.add(id(before))
            break
    draft.nodes = [node for node in draft.nodes if id(node) not in dropped] + added
    draft.sort()


def by_rows(draft: Draft, node: Node, product: Node, bias: str) -> list[Node]:
    """Return the Gemm of all rows of the left operand, between two changes of shape."""
    left, right = product.inputs
    result = node.outputs[0]
    rows, inner = prod(draft.shape(left)[:-1]), draft.shape(left)[-1]
    flat = draft.tensor(f"{left}_rows", draft.dtype(left), (rows, inner))
    made = draft.tensor(f"{result}_rows", draft.dtype(left), (rows, draft.shape(right)[1]))
    first = draft.integers(f"{left}_rows_shape", (rows, inner))
    last = draft.integers(f"{result}_shape", draft.shape(result))
    return [
        Node("Reshape", [left, first], [flat], opset=OPSET),
        Node("Gemm", [flat, right, bias], [made], {}, node.name, opset=OPSET),
        Node("Reshape", [made, last], [result], opset=OPSET),
    ]


def fits_by_rows(draft: Draft, product: Node, bias: str, producers: dict[str, Node]) -> bool:
    """Say whether a product of quantised operands is one of a matrix's rows, all with one bias."""
    left, right = (draft.shape(name) for name in product.inputs)
    shape = draft.shape(bias)
    if len(left) <= 2 or len(right) != 2 or len(shape) > 1:  # noqa: PLR2004 - a matrix
        return False
    makers = [producers.get(name) for name in product.inputs]
    is_quantized = all(m is not None and m.kind == "DequantizeLinear" for m in makers)
    return is_quantized and prod(left) > 0 and (not shape or shape[0] in {1, right[1]})


def fits(draft: Draft, product: Node, bias: str) -> bool:
    """Say whether a product of two matrices and a bias make a Gemm."""
    shapes = [draft.shape(name) for name in product.inputs]
    if any(len(shape) != 2 for shape in shapes):  # noqa: PLR2004 - matrices
        return False
    rows, columns = draft.shape(product.outputs[0])
    shape = draft.shape(bias)
    return len(shape) <= 2 and all(  # noqa: PLR2004 - at most a matrix
        have in {1, want} for have, want in zip(shape[::-1], (columns, rows), strict=False)
    )


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
