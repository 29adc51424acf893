"""The comment above a kernel."""

import textwrap
from collections.abc import Iterator, Sequence

from dlbuild.emit.comments import extents, quoted
from dlbuild.emit.literals import COLUMNS
from dlbuild.emit.parameter import Parameter
from dlbuild.emit.ranges import Ranges, added
from dlbuild.rulebook.derive import Orders
from dlbuild.rulebook.instance import Instance, Operand
from dlbuild.rulebook.value import Number

_VERB = {"output": "writes", "scratch": "keeps"}
"""What a kernel does with an operand that it does not only read."""


def kernel_comment(  # noqa: PLR0913, PLR0917 - all that it tells of
    instance: Instance,
    orders: Orders,
    parameters: Sequence[Parameter],
    nodes: Sequence[str],
    notes: Sequence[str] = (),
    alike: Sequence[Instance] = (),
) -> str:
    """Return the comment above a kernel: what it computes, for which nodes, in which layout.

    notes: sentences on how it does so. alike: all that the function computes, if not this alone.
    """

    def wrapped(text: str, hang: str = "") -> list[str]:
        return textwrap.wrap(
            text,
            COLUMNS,
            initial_indent=" * ",
            subsequent_indent=f" * {hang}",
            break_long_words=False,
            break_on_hyphens=False,
        )

    lines = wrapped(f"{instance.kind}: {instance.summary}", "    ")
    lines += wrapped(f"nodes: {', '.join(quoted(node) for node in nodes)}", "    ")
    for note in notes:
        lines += wrapped(note, "    ")
    lines.append(" *")
    shown = {p.operand for p in parameters}
    for operand in instance.operands:
        if operand.name in shown:
            lines += wrapped(
                f"{_VERB.get(operand.role, 'reads')} {_described(operand, orders)}", "    "
            )
    bounds: dict[str, int] = {}
    for name, bound in (pair for one in alike or (instance,) for pair in _magnitudes(one)):
        bounds[name] = max(bounds.get(name, 0), bound)
    for name, bound in bounds.items():
        lines += wrapped(f"{name}: at most {bound:,} in magnitude, no overflow", "    ")
    lines[0] = f"/* {lines[0][3:]}"
    return "\n".join([*lines, " */"])


def _described(operand: Operand, orders: Orders) -> str:
    order = orders.get(operand.name, ())
    text = f"{operand.name}: {operand.dtype}{extents(operand.shape)}"
    if order and tuple(order) != tuple(range(len(order))):
        memory = extents([operand.shape[a] for a in order])
        text += f", in memory {memory} (axes {', '.join(map(str, order))})"
    return text


def _magnitudes(instance: Instance) -> Iterator[tuple[str, int]]:
    """Yield each integer sum that needs no check, and how great it can become."""
    for nest in instance.nests:
        dtype = {n: instance.operand(a.operand).dtype for n, a in nest.access.items()}
        ranges = Ranges(nest.extent, dtype, nest.given)
        for step in nest.steps:
            ranges.enter(step)
            for fold in step.folds:
                is_sum = added(fold) is not None and not isinstance(added(fold), Number)
                if is_sum and fold.type in ("i32", "i64") and ranges.is_exact_fold(fold):
                    low, high = ranges.of_local(fold)
                    yield fold.name, int(max(-low, high))
