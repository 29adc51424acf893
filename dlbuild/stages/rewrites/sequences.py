"""Sequences and optionals of known extents: a sequence is its members, an optional is there or not.

No node of them stays: `Draft.sequences` and `Draft.optionals` say what each name stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Group
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.subgraphs import graph_of, inlined

OPSET = 13
"""Of the operators that sequences become."""


def sequence_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of an operator on sequences or optionals; None for others.

    Raises:
        UserError: which members there are depends on what the input holds.
    """
    if node.domain:
        return None
    if node.kind == "Identity" and is_abstract(draft, node.inputs[0]):
        stand_for(draft, node.outputs[0], node.inputs[0])
        return []
    translate = TRANSLATIONS.get(node.kind)
    return None if translate is None else translate(draft, node)


def is_abstract(draft: Draft, name: str) -> bool:
    """Say whether a name stands for a sequence or an optional."""
    return name in draft.sequences or name in draft.optionals


def stand_for(draft: Draft, name: str, source: str) -> None:
    """Let a name stand for the same sequence or optional as another."""
    if source in draft.optionals:
        draft.optionals[name] = draft.optionals[source]
    else:
        draft.sequences[name] = draft.sequences[source]


def element_of(draft: Draft, name: str) -> str:
    """Return the tensor or sequence that an optional holds; of anything else the name itself."""
    while name in draft.optionals:
        name = draft.optionals[name]
    return name


def members_of(draft: Draft, node: Node, position: int = 0) -> tuple[str, ...]:
    """Return the members of an operand.

    Raises:
        UserError: the operand is no sequence, or not there.
    """
    name = element_of(draft, node.input(position))
    if name not in draft.sequences:
        raise UserError(
            f"the operand '{node.input(position)}' is not a sequence",
            where=where_of(draft, node),
            fix="export the model again",
        )
    return draft.sequences[name]


def where_of(draft: Draft, node: Node) -> str:
    """Return the place of a node, for messages."""
    return f"{draft.where}: node '{node.label}' ({node.kind})"


def number_in(draft: Draft, node: Node, position: int, default: int) -> int:
    """Return the number that an operand holds.

    Raises:
        UserError: it is only known when the model runs.
    """
    name = node.input(position)
    if not name:
        return default
    if name not in draft.constants:
        raise unknown_members(draft, node, name)
    return int(draft.constants[name].reshape(-1)[0])


def unknown_members(draft: Draft, node: Node, name: str) -> UserError:
    """Return the error for members that depend on what an operand holds."""
    return UserError(
        "the extents of the sequence's members are not known before the model runs",
        where=where_of(draft, node),
        why=f"they depend on what '{name}' holds; firmware has fixed buffers",
        fix=f"export the model with '{name}' as a constant",
    )


def place_in(draft: Draft, node: Node, place: int, count: int) -> int:
    """Return a place in a sequence counted from the front.

    Raises:
        UserError: there is no such place.
    """
    if not -count <= place < count:
        raise UserError(
            f"the place {place} is outside a sequence of {count}",
            where=where_of(draft, node),
            fix="export the model again",
        )
    return place % count


def empty(draft: Draft, node: Node) -> list[Node]:
    """Make a sequence without members."""
    draft.sequences[node.outputs[0]] = ()
    return []


def construct(draft: Draft, node: Node) -> list[Node]:
    """Make a sequence of the operands."""
    draft.sequences[node.outputs[0]] = tuple(node.inputs)
    return []


def insert(draft: Draft, node: Node) -> list[Node]:
    """Put a tensor into a sequence, behind the last unless a place is given."""
    members = members_of(draft, node)
    count = len(members)
    at = number_in(draft, node, 2, count)
    at = place_in(draft, node, at, count) if at != count else at
    draft.sequences[node.outputs[0]] = (*members[:at], node.inputs[1], *members[at:])
    return []


def erase(draft: Draft, node: Node) -> list[Node]:
    """Take a member out, the last unless a place is given."""
    members = members_of(draft, node)
    at = place_in(draft, node, number_in(draft, node, 1, -1), len(members))
    draft.sequences[node.outputs[0]] = (*members[:at], *members[at + 1 :])
    return []


def pick(draft: Draft, node: Node) -> list[Node]:
    """Give the value of one member."""
    members = members_of(draft, node)
    at = place_in(draft, node, number_in(draft, node, 1, 0), len(members))
    return [Node("Identity", [members[at]], node.outputs, name=node.name, opset=OPSET)]


def length(draft: Draft, node: Node) -> list[Node]:
    """Count the members."""
    draft.keep(node.outputs[0], np.array(len(members_of(draft, node)), np.int64))
    return []


def concat(draft: Draft, node: Node) -> list[Node]:
    """Join the members along an axis, or along a new one."""
    members, axis = list(members_of(draft, node)), node.integer("axis", 0)
    if not members:
        raise UserError(
            "a sequence without members has nothing to join",
            where=where_of(draft, node),
            fix="check the shapes in the recipe and the export of the model",
        )
    nodes: list[Node] = []
    if node.integer("new_axis", 0):
        place = draft.integers(f"{node.label}/axis", [axis])
        for number, member in enumerate(members):
            members[number] = draft.fresh(f"{node.label}/{number}")
            nodes.append(Node("Unsqueeze", [member, place], [members[number]], opset=OPSET))
    joined = Node("Concat", members, node.outputs, {"axis": axis}, node.name, opset=OPSET)
    return [*nodes, joined]


def split(draft: Draft, node: Node) -> list[Node]:
    """Cut a tensor into members: of one row, of so many rows, or of the rows listed."""
    source, lengths = node.inputs[0], node.input(1)
    axis = node.integer("axis", 0)
    extent = draft.shape(source)[axis]
    if lengths and lengths not in draft.constants:
        raise unknown_members(draft, node, lengths)
    given = draft.constants[lengths] if lengths else np.array(1)
    if given.ndim:
        sizes = [int(size) for size in given]
    else:
        step = int(given)
        sizes = [min(step, extent - first) for first in range(0, extent, step)] if step > 0 else []
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise UserError(
            f"the parts {sizes} do not add up to the extent {extent} of axis {axis}",
            where=where_of(draft, node),
            fix="export the model again",
        )
    nodes, parts = [], []
    place = draft.integers(f"{node.label}/axis", [axis])
    for number, (last, size) in enumerate(zip(accumulate(sizes), sizes, strict=True)):
        bounds = [draft.integers(f"{node.label}/{number}/{v}", [v]) for v in (last - size, last)]
        part = draft.fresh(f"{node.label}/{number}")
        nodes.append(Node("Slice", [source, *bounds, place], [part], opset=OPSET))
        if not lengths and not node.integer("keepdims", 1):
            flat = draft.fresh(f"{part}/flat")
            nodes.append(Node("Squeeze", [part, place], [flat], opset=OPSET))
            part = flat
        parts.append(part)
    draft.sequences[node.outputs[0]] = tuple(parts)
    return nodes


def mapped(draft: Draft, node: Node) -> list[Node]:
    """Apply a body to the members of the first sequence, one by one."""
    body = graph_of(node, "body")
    count = len(members_of(draft, node))
    operands = [
        members_of(draft, node, position) if is_abstract(draft, name) else (name,) * count
        for position, name in enumerate(node.inputs)
    ]
    if any(len(members) != count for members in operands):
        raise UserError(
            f"the sequences have {[len(members) for members in operands]} members",
            where=where_of(draft, node),
            why="each turn takes one member of each",
            fix="check the shapes in the recipe",
        )
    nodes: list[Node] = []
    results: list[list[str]] = [[] for _ in node.outputs]
    for turn in range(count):
        names = (value.name for value in body.input)
        given = dict(zip(names, (members[turn] for members in operands), strict=True))
        made, found = inlined(draft, body, f"{node.label}/{turn}", given)
        nodes += made
        for result, name in zip(results, found, strict=True):
            result.append(name)
    draft.sequences |= {
        name: tuple(result) for name, result in zip(node.outputs, results, strict=True)
    }
    return nodes


def optional(draft: Draft, node: Node) -> list[Node]:
    """Wrap a value, or nothing."""
    draft.optionals[node.outputs[0]] = node.input(0)
    return []


def has_element(draft: Draft, node: Node) -> list[Node]:
    """Say whether an optional holds a value."""
    draft.keep(node.outputs[0], np.array(bool(element_of(draft, node.input(0)))))
    return []


def element(draft: Draft, node: Node) -> list[Node]:
    """Unwrap an optional.

    Raises:
        UserError: it holds nothing.
    """
    name = element_of(draft, node.inputs[0])
    if not name:
        raise UserError(
            f"the optional '{node.inputs[0]}' holds nothing",
            where=where_of(draft, node),
            fix="give the shape of the model's optional input under 'shapes:'",
        )
    if name in draft.sequences:
        draft.sequences[node.outputs[0]] = draft.sequences[name]
        return []
    return [Node("Identity", [name], node.outputs, name=node.name, opset=OPSET)]


TRANSLATIONS: dict[str, Callable[[Draft, Node], list[Node]]] = {
    "SequenceEmpty": empty,
    "SequenceConstruct": construct,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceAt": pick,
    "SequenceLength": length,
    "ConcatFromSequence": concat,
    "SplitToSequence": split,
    "SequenceMap": mapped,
    "Optional": optional,
    "OptionalHasElement": has_element,
    "OptionalGetElement": element,
}


def choose_members(draft: Draft, node: Node, truth: str, names: tuple[str, str, str]) -> list[Node]:
    """Return the choice between two sequences, member by member.

    Args:
        draft: holds the sequences.
        node: the If.
        truth: the condition, a scalar.
        names: the result, and what it is if the condition holds, and if not.

    Raises:
        UserError: they have not the same number of members.
    """
    result, *both = names
    then, other = (draft.sequences.get(name) for name in both)
    if then is None or other is None or len(then) != len(other):
        raise UserError(
            f"the branches give '{result}' different numbers of members",
            where=where_of(draft, node),
            why="firmware has fixed buffers, and the condition is only known when it runs",
            fix="export the model with a fixed condition",
        )
    members = tuple(draft.fresh(f"{result}/{number}") for number in range(len(then)))
    draft.sequences[result] = members
    return [
        Node("Where", [truth, yes, no], [member], opset=node.opset)
        for member, yes, no in zip(members, then, other, strict=True)
    ]


def open_outputs(draft: Draft) -> None:
    """Let the members of sequences be outputs of the model, each with a name of its own.

    Raises:
        UserError: an optional output holds nothing.
    """
    opened: list[str] = []
    for name in draft.outputs:
        if not is_abstract(draft, name):
            opened.append(name)
            continue
        source = element_of(draft, name)
        if not source:
            raise UserError(
                f"the output '{name}' holds nothing",
                where=draft.where,
                fix="give the shape of the model's optional input under 'shapes:'",
            )
        is_many = source in draft.sequences
        results: list[str] = []
        for number, member in enumerate(draft.sequences.get(source, (source,))):
            result = draft.fresh(f"{name}.{number}") if is_many else name
            draft.tensors[result] = replace(draft.tensors[member], name=result)
            draft.nodes.append(Node("Identity", [member], [result], opset=OPSET))
            opened.append(result)
            results.append(result)
        draft.groups.append(Group(name, "sequence" if is_many else "optional", tuple(results)))
    draft.outputs = opened
