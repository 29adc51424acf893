"""An If becomes the branch that is taken, or both and a choice for each result."""

from dlbuild.base.errors import UserError
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.sequences import choose_members, element_of, is_abstract
from dlbuild.stages.rewrites.subgraphs import copies, graph_of, inlined

CHOICE = "choice of branches"
"""The attribute of an If whose branches are already in the graph, as further inputs."""


def branch_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of an If; None for other operators.

    A branch has no effect but its results, so where only the run can tell, both are computed.

    Raises:
        UserError: the branches give results of different shapes.
    """
    if node.kind != "If" or node.domain:
        return None
    if CHOICE in node.attributes:
        return chosen(draft, node)
    condition = node.inputs[0]
    if condition in draft.constants:
        wanted = "then_branch" if draft.constants[condition].all() else "else_branch"
        body, results = inlined(draft, graph_of(node, wanted), node.label, {})
        return [*body, *copies(draft, node, results)]
    nodes: list[Node] = []
    names = [condition]
    for branch in ("then_branch", "else_branch"):
        body, results = inlined(draft, graph_of(node, branch), f"{node.label}/{branch}", {})
        nodes += body
        names += results
    choice = Node("If", names, node.outputs, {CHOICE: 1}, node.label, opset=node.opset)
    return [*nodes, choice]


def chosen(draft: Draft, node: Node) -> list[Node]:
    """Return the choice between the results of two branches."""
    condition, *results = node.inputs
    count = len(node.outputs)
    truth = draft.fresh(f"{node.label}/condition")
    scalar = draft.integers(f"{node.label}/scalar", [])
    nodes = [Node("Reshape", [condition, scalar], [truth], opset=node.opset)]
    for position, name in enumerate(node.outputs):
        then, other = (element_of(draft, results[at + position]) for at in (0, count))
        if not then or not other or is_abstract(draft, then) or is_abstract(draft, other):
            nodes += choose_members(draft, node, truth, (name, then, other))
            continue
        if draft.tensors[then].shape != draft.tensors[other].shape:
            raise UserError(
                f"the branches give '{name}' the shapes {list(draft.shape(then))}"
                f" and {list(draft.shape(other))}",
                where=f"{draft.where}: node '{node.label}' (If)",
                why="firmware has fixed buffers, and the condition is only known when it runs",
                fix="export the model with a fixed condition",
            )
        nodes.append(Node("Where", [truth, then, other], [name], opset=node.opset))
    return nodes
