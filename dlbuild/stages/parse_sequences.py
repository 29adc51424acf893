"""Inputs that are sequences or optionals: `shapes:` says which members there are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Group

Shapes = Mapping[str, tuple[int, ...]]


@dataclass
class Opened:
    """Inputs of which each is a tensor, and what the others stand for.

    sequences: the members of each. optionals: what each holds, empty if nothing.
    """

    values: list[onnx.ValueInfoProto] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    sequences: dict[str, tuple[str, ...]] = field(default_factory=dict)
    optionals: dict[str, str] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def open_inputs(values: Sequence[onnx.ValueInfoProto], shapes: Shapes, where: str) -> Opened:
    """Put the members of sequences, `x.0`, `x.1`..., and of optionals in their place.

    Args:
        values: the graph's inputs that are not constants.
        shapes: the recipe's `shapes:`; `x.0: [...]` binds a member, `x: []` an empty sequence.
        where: the model file, for messages.

    Raises:
        UserError: a sequence of which no member is bound, or with a gap.
    """
    found = Opened(shapes=dict(shapes))
    for value in values:
        kind = value.type.WhichOneof("value")
        if kind == "sequence_type":
            open_sequence(found, value.name, value.type.sequence_type.elem_type, where)
        elif kind == "optional_type":
            open_optional(found, value.name, value.type.optional_type.elem_type, where)
        else:
            found.values.append(value)
    return found


def open_sequence(found: Opened, name: str, kind: onnx.TypeProto, where: str) -> None:
    """Replace a sequence by its members."""
    pattern = re.compile(re.escape(name) + r"\.(0|[1-9]\d*)")
    numbers = sorted(int(m[1]) for m in map(pattern.fullmatch, found.shapes) if m)
    is_empty = found.shapes.get(name) == ()
    if (not numbers and not is_empty) or numbers != list(range(len(numbers))):
        raise UserError(
            f"input '{name}' is a sequence, and which members it has is not known"
            if not numbers
            else f"the members {numbers} of input '{name}' are bound, but not each from 0 on",
            where=where,
            why="firmware has fixed buffers, so each member needs its extents",
            fix=f"bind them in the recipe: shapes: {{{name}.0: [...], {name}.1: [...]}}",
        )
    if is_empty:
        del found.shapes[name]
    members = tuple(f"{name}.{number}" for number in numbers)
    # A symbol stands for an extent of one member, not of all.
    own = onnx.TypeProto()
    own.CopyFrom(kind)
    for extent in own.tensor_type.shape.dim if own.tensor_type.HasField("shape") else ():
        extent.ClearField("dim_param")
    found.values += [onnx.ValueInfoProto(name=member, type=own) for member in members]
    found.sequences[name] = members
    found.groups.append(Group(name, "sequence", members))


def open_optional(found: Opened, name: str, kind: onnx.TypeProto, where: str) -> None:
    """Replace an optional by what it holds; what `shapes:` does not bind is not there."""
    is_sequence = kind.WhichOneof("value") == "sequence_type"
    is_bound = name in found.shapes or (is_sequence and f"{name}.0" in found.shapes)
    if not is_bound:
        found.optionals[name] = ""
        found.groups.append(Group(name, "optional", ()))
        found.notes.append(
            f"the optional input '{name}' is taken to be absent: 'shapes:' does not bind it"
        )
    elif is_sequence:
        open_sequence(found, name, kind.sequence_type.elem_type, where)
    else:
        found.values.append(onnx.ValueInfoProto(name=name, type=kind))
