"""How a nest addresses its operands: views, index maps, and the proof that they stay inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from dlbuild.base.errors import UserError
from dlbuild.base.yamlsrc import Scalar
from dlbuild.rulebook.bind import Binding, Unfit, size
from dlbuild.rulebook.index import UNBOUNDED, Index
from dlbuild.rulebook.instance import Access, Guard, Operand
from dlbuild.rulebook.loops import Loops, index_list
from dlbuild.rulebook.pack import flat, integer
from dlbuild.rulebook.rule import MapSpec
from dlbuild.rulebook.simplify import simplified
from dlbuild.rulebook.value import Expr


@dataclass(frozen=True, slots=True)
class Way:
    """An access before its map is worked out: the operand, and what the rule says of it.

    spec: None for an output that is written where the domain's axes say.
    """

    operand: Operand
    spec: MapSpec | None


def ways_of(binding: Binding, loops: Loops) -> Mapping[str, Way]:
    """Return every access that the steps may name."""
    rule = binding.rule
    found: dict[str, Way] = {}
    for name, spec in (*rule.reads.items(), *rule.writes.items()):
        operand = loops.operands.get(spec.of)
        if operand is not None:
            found[name] = Way(operand, spec)
    everything = rule.reads.get("*")
    for name, operand in loops.operands.items():
        if operand.role == "input" and everything is not None:
            found.setdefault(name, Way(operand, everything))
        elif operand.role == "output":
            found.setdefault(name, Way(operand, None))
    return found


def access_of(
    binding: Binding, loops: Loops, name: str, way: Way, outside: Expr | Literal["skip"] | None
) -> Access:
    """Return an access with the guards that its map needs.

    Raises:
        Unfit: the operator's shapes do not go with the map.
        UserError: the map may leave the tensor and the rule does not say what happens then.
    """
    operand, rule = way.operand, binding.rule
    scope = {**loops.scope, "SELF": operand.shape}
    view = operand.shape
    view_text = rule.views.get(name, rule.views.get(way.spec.of if way.spec else name))
    if view_text is not None:
        view = tuple(integer(part) for part in flat(size(view_text, scope)))
    if prod(view) != prod(operand.shape):
        raise Unfit(
            f"{name} has the shape {list(operand.shape)}, but the rule sees it as {list(view)}"
        )
    if way.spec is None:
        places = tuple(Index.axis(axis) for axis in loops.domain)
    else:
        places = index_list(way.spec.at, scope)
    if not loops.is_empty:
        places = tuple(simplified(place, loops.box) for place in places)
    place = way.spec.at if way.spec else view_text
    if len(places) != len(view):
        raise Unfit(f"{name} has {len(view)} axes, its map {len(places)}{_at(place)}")
    guards = tuple(_unproved(places, view, loops))
    if guards and outside is None:
        raise _escape(binding, loops, name, place, guards[0])
    return Access(operand.name, view, places, guards, outside if guards else None)


def _at(place: Scalar | None) -> str:
    return f" ({place.where})" if place is not None else ""


def _unproved(places: tuple[Index, ...], view: tuple[int, ...], loops: Loops) -> Iterator[Guard]:
    if loops.is_empty:
        return
    box = loops.box
    for place, extent in zip(places, view, strict=True):
        low, high = place.interval(box)
        if low < 0 or high >= extent:
            yield Guard(place, extent)


def _escape(
    binding: Binding, loops: Loops, name: str, place: Scalar | None, guard: Guard
) -> UserError:
    low, high = guard.index.interval(loops.box)
    span = "any index" if low <= -UNBOUNDED else f"index {low}..{high}"
    what = f"the map of '{name}' may take {span} of an axis of {guard.extent}"
    node = place if place is not None else binding.rule.text
    error = node.error(
        what,
        why=f"for the node '{binding.op.name}' ({binding.op.kind})",
        fix=f"correct the map, or say under 'outside' what '{name}' is there",
    )
    error.exit_code = 1
    return error
