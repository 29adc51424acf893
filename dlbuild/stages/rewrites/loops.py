"""Loop and Scan of a known number of turns, unrolled: one copy of the body for each turn."""

from __future__ import annotations

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Attribute
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.subgraphs import copies, graph_of, inlined

TURN = "turn"
COLLECTED = "collected"
"""Attributes of a Loop that has begun: turns made, and the names of what it has collected."""

MOST_NODES = 20_000
"""A body and its turns may become so many nodes."""


def loop_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of a Loop or Scan; None for other operators.

    Raises:
        UserError: the number of turns is not known, or too great.
    """
    if node.domain or node.kind not in {"Loop", "Scan"}:
        return None
    return scanned(draft, node) if node.kind == "Scan" else turned(draft, node)


def check_size(draft: Draft, node: Node, turns: int) -> None:
    """Refuse a loop that would become too many nodes.

    Raises:
        UserError: names the node.
    """
    size = len(graph_of(node, "body").node)
    if turns * size > MOST_NODES:
        raise UserError(
            f"{turns} turns of a body of {size} operators are too many to write out",
            where=f"{draft.where}: node '{node.label}' ({node.kind})",
            why=f"loops are unrolled, up to {MOST_NODES:,} operators",
            fix="export the model with fewer steps, or with a recurrent operator instead",
        )


def scanned(draft: Draft, node: Node) -> list[Node]:
    """Unroll a Scan: its turns are the extent of the scanned axis."""
    body = graph_of(node, "body")
    n_scanned = node.integer("num_scan_inputs", 1)
    if node.opset < OPSET_OF_SCAN:
        return batched(draft, node, n_scanned)
    states, sources = node.inputs[:-n_scanned], node.inputs[-n_scanned:]
    axes = node.integers("scan_input_axes", [0] * n_scanned)
    backward = node.integers("scan_input_directions", [0] * n_scanned)
    turns = draft.shape(sources[0])[axes[0]]
    check_size(draft, node, turns)
    nodes: list[Node] = []
    collected: list[list[str]] = [[] for _ in node.outputs[len(states) :]]
    for turn in range(turns):
        parts = []
        for source, axis, is_backward in zip(sources, axes, backward, strict=True):
            part = draft.fresh(f"{node.label}/{turn}/{source}")
            at = turns - 1 - turn if is_backward else turn
            place = draft.constant(f"{part}_at", np.array(at, np.int64))
            nodes.append(Node("Gather", [source, place], [part], {"axis": axis}, opset=node.opset))
            parts.append(part)
        given = dict(zip((v.name for v in body.input), [*states, *parts], strict=True))
        made, results = inlined(draft, body, f"{node.label}/{turn}", given)
        nodes += made
        states = results[: len(states)]
        for found, name in zip(collected, results[len(states) :], strict=True):
            found.append(name)
    return [*nodes, *finished(draft, node, states, collected)]


def batched(draft: Draft, node: Node, n_scanned: int) -> list[Node]:
    """Return the Scans, one for each inference of a batch, that a Scan of operator set 8 is.

    Raises:
        UserError: the inferences are of different lengths.
    """
    lengths, *operands = node.inputs
    if lengths:
        raise UserError(
            "inferences of different lengths cannot be scanned together",
            where=f"{draft.where}: node '{node.label}' (Scan)",
            why="the number of turns of each is only known when the model runs",
            fix="export the model with a newer operator set",
        )
    zero = draft.integers(f"{node.label}/axis", [0])
    backward = node.integers("directions", [0] * n_scanned)
    attributes: dict[str, Attribute] = {"num_scan_inputs": n_scanned}
    attributes["scan_input_directions"] = tuple(backward)
    nodes: list[Node] = []
    results: list[list[str]] = [[] for _ in node.outputs]
    for number in range(draft.shape(operands[-1])[0]):
        label = f"{node.label}/{number}"
        place = draft.constant(f"{label}/place", np.array(number, np.int64))
        ours = [draft.fresh(f"{label}/{name}") for name in operands]
        nodes += [
            Node("Gather", [name, place], [own], {"axis": 0}, opset=OPSET_OF_PARTS)
            for name, own in zip(operands, ours, strict=True)
        ]
        made = [draft.fresh(f"{label}/{name}") for name in node.outputs]
        scan = Node("Scan", ours, made, dict(attributes), label, opset=OPSET_OF_PARTS)
        scan.special = node.special
        nodes.append(scan)
        for found, name in zip(results, made, strict=True):
            found.append(draft.fresh(f"{name}/one"))
            nodes.append(Node("Unsqueeze", [name, zero], [found[-1]], opset=OPSET_OF_PARTS))
    nodes += [
        Node("Concat", found, [name], {"axis": 0}, opset=OPSET_OF_PARTS)
        for found, name in zip(results, node.outputs, strict=True)
        if name
    ]
    return nodes


def finished(draft: Draft, node: Node, states: list[str], collected: list[list[str]]) -> list[Node]:
    """Return the results of a loop: the last states, and what was collected, one by one."""
    count = len(states)
    axes = node.integers("scan_output_axes", [0] * len(collected))
    backward = node.integers("scan_output_directions", [0] * len(collected))
    nodes = copies(draft, Node("", [], node.outputs[:count], opset=node.opset), states)
    for result, names, axis, is_backward in zip(
        node.outputs[count:], collected, axes, backward, strict=True
    ):
        if not result:
            continue
        if not names:
            raise unknown_turns(draft, node, "it makes no turn, so what it collects has no shape")
        place = draft.integers(f"{result}_axis", [axis])
        parts = []
        for name in names[::-1] if is_backward else names:
            parts.append(draft.fresh(f"{name}_part"))
            nodes.append(Node("Unsqueeze", [name, place], [parts[-1]], opset=OPSET_OF_PARTS))
        nodes.append(Node("Concat", parts, [result], {"axis": axis}, opset=OPSET_OF_PARTS))
    return nodes


def turned(draft: Draft, node: Node) -> list[Node]:
    """Make one more turn of a Loop, and the Loop that goes on from there, or its results."""
    body = graph_of(node, "body")
    limit, condition, *states = [*node.inputs, "", ""][: max(len(node.inputs), 2)]
    turn = node.integer(TURN, 0)
    collected = collected_of(node, len(node.outputs) - len(states))
    if limit and limit not in draft.constants:
        raise unknown_turns(draft, node, "it depends on what the input holds")
    is_last = bool(limit) and turn >= int(draft.constants[limit].reshape(-1)[0])
    is_open = bool(condition) and condition not in draft.constants
    is_abstract = any(name in draft.sequences or name in draft.optionals for name in states)
    if is_open and (not limit or collected or is_abstract):
        raise unknown_turns(draft, node, "its condition depends on what the input holds")
    if is_last or (condition and not is_open and not draft.constants[condition].all()):
        return finished(draft, node, states, collected)
    check_size(draft, node, turn + 1)
    number = draft.constant(f"{node.label}/{turn}/number", np.array(turn, np.int64))
    truth = condition or draft.constant(f"{node.label}/{turn}/go", np.array(True))  # noqa: FBT003 - a constant
    names = [value.name for value in body.input]
    given = dict(zip(names, [number, truth, *states], strict=True))
    made, (goes_on, *results) = inlined(draft, body, f"{node.label}/{turn}", given)
    after = results[: len(states)]
    if is_open:
        kept, after, goes_on = guarded(draft, node, turn, states, after, goes_on)
        made += kept
    rest = Node(
        "Loop",
        [limit, goes_on, *after],
        node.outputs,
        {
            TURN: turn + 1,
            **{
                f"{COLLECTED}{position}": (*before, name)
                for position, (before, name) in enumerate(
                    zip(collected, results[len(states) :], strict=True)
                )
            },
        },
        node.label,
        opset=node.opset,
        special=node.special,
    )
    return [*made, rest]


def guarded(  # noqa: PLR0913, PLR0917 - the parts of one turn
    draft: Draft, node: Node, turn: int, before: list[str], after: list[str], goes_on: str
) -> tuple[list[Node], list[str], str]:
    """Return nodes that keep the states as they were once the condition has failed."""
    condition = node.inputs[1]
    nodes, kept = [], []
    for old, new in zip(before, after, strict=True):
        kept.append(draft.fresh(f"{node.label}/{turn}/{new}_kept"))
        nodes.append(Node("Where", [condition, new, old], [kept[-1]], opset=node.opset))
    still = draft.fresh(f"{node.label}/{turn}/goes_on")
    nodes.append(Node("And", [condition, goes_on], [still], opset=node.opset))
    return nodes, kept, still


def collected_of(node: Node, count: int) -> list[list[str]]:
    """Return the names that a Loop has collected for each of its further results."""
    found = (node.attributes.get(f"{COLLECTED}{position}", ()) for position in range(count))
    return [[str(name) for name in names] if isinstance(names, tuple) else [] for names in found]


def unknown_turns(draft: Draft, node: Node, why: str) -> UserError:
    """Return the error for a loop whose turns are not known."""
    return UserError(
        "the number of turns is not known before the model runs",
        where=f"{draft.where}: node '{node.label}' ({node.kind})",
        why=f"{why}; firmware has fixed buffers",
        fix="export the model with a fixed number of steps",
    )


OPSET_OF_SCAN = 9
OPSET_OF_PARTS = 13
