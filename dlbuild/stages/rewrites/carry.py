"""State: outputs that a run leaves behind for the next one, which reads them as inputs."""

from dlbuild.base.errors import UserError
from dlbuild.base.spelling import suggestion
from dlbuild.ir.graph import State
from dlbuild.stages.rewrites.draft import Draft, Node

COPY = "Identity"


def carry(draft: Draft) -> None:
    """Let the last nodes write the state, each a copy that the plan may leave out.

    So what computes the new state may run while the old one is still read.

    Raises:
        UserError: there is no such input or output, or the two are of different types.
    """
    for output, name in draft.carried.items():
        check(draft, output, name)
        initial = ""
        if name in draft.initial:
            initial = draft.constant(f"{name}_initial", draft.initial[name])
        draft.states.append(State(name, output, initial))
        value = draft.tensor(f"{output}_value", draft.dtype(output), draft.shape(output))
        for node in draft.nodes:
            node.inputs = [value if read == output else read for read in node.inputs]
            node.outputs = [value if made == output else made for made in node.outputs]
        draft.nodes.append(Node(COPY, [value], [output], name=output, opset=13))


def check(draft: Draft, output: str, name: str) -> None:
    """Refuse what cannot be carried."""
    for what, wanted, known in (
        ("output", output, draft.outputs),
        ("input", name, draft.inputs),
    ):
        if wanted not in known:
            raise UserError(
                f"the recipe's 'state' names an {what} '{wanted}', which the model does not have",
                where=draft.where,
                fix=suggestion(wanted, known),
            )
    if output in draft.counts:
        raise UserError(
            f"the state '{output}' has a size that only the run knows",
            where=draft.where,
            fix="carry a tensor of a fixed size",
        )
    left, right = draft.tensors[output], draft.tensors[name]
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        raise UserError(
            f"'{output}' cannot be carried to '{name}'",
            where=draft.where,
            why=f"it is {left.dtype}{list(left.shape)}, "
            f"the input is {right.dtype}{list(right.shape)}",
            fix="export the model with both alike, or bind 'shapes'",
        )
