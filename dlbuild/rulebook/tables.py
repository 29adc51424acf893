"""Tables of a rule: numbers computed from sizes alone, for each axis of a pack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dlbuild.base.yamlsrc import Scalar
from dlbuild.rulebook.bind import Unfit, fault_in, size
from dlbuild.rulebook.index import Index, Tabled
from dlbuild.rulebook.known import Known, Typed
from dlbuild.rulebook.loops import Loops
from dlbuild.rulebook.pack import ExpressionError, Term, flat, index, integer
from dlbuild.rulebook.rule import TableSpec
from dlbuild.rulebook.value import Binary, Lookup, Position, Type


@dataclass(frozen=True)
class Tables:
    """The loops with the index tables in scope, the values of the others, and the numbers."""

    loops: Loops
    values: Mapping[str, Typed]
    numbers: Mapping[str, tuple[float, ...]]


def tables_of(specs: Mapping[str, TableSpec], loops: Loops, type_: Type) -> Tables:
    """Work out every table of a rule.

    Args:
        specs: the rule's tables.
        loops: the axes; a table has one row of numbers for each member of its outer axis' pack.
        type_: the type in which the numbers of tables that are no index take part in values.
    """
    scope = dict(loops.scope)
    values: dict[str, Typed] = {}
    numbers: dict[str, tuple[float, ...]] = {}
    for name, spec in specs.items():
        places: list[Term] = []
        value: Typed = Known(1)
        for number, (place, row) in enumerate(_rows(spec, loops)):
            label = f"{name.lower()}{number}"
            if spec.is_index:
                whole = tuple(_whole(spec.value, part) for part in row)
                is_plain = whole == tuple(range(len(whole)))
                places.append(place if is_plain else Index.atom(Tabled(place, label, whole)))
                used = not is_plain
            else:
                used = any(part != 1 for part in row)
                if used:
                    value = _times(value, Lookup(label, Position(place), type_))
            if used:
                numbers[label] = row
        if spec.is_index:
            scope[name] = tuple(places)
        else:
            values[name] = value
    return Tables(replace(loops, scope=scope), values, numbers)


def _times(left: Typed, right: Lookup) -> Typed:
    return right if isinstance(left, Known) else Binary("*", left, right, right.type)


def _rows(spec: TableSpec, loops: Loops) -> list[tuple[Index, tuple[float, ...]]]:
    (outer, outer_size), (inner, inner_size) = spec.outer, spec.inner
    outer_axes = tuple(flat(loops.scope[outer]))
    inner_axes = tuple(flat(loops.scope[inner]))
    rank = len(outer_axes)
    rows = []
    for j in range(rank):
        local = {
            name: term[j] if isinstance(term, tuple) and len(term) == rank else term
            for name, term in loops.names.items()
        }
        taps = integer(local[inner_size])
        row = [
            _number(spec, {**local, outer: a, inner: b})
            for a in range(integer(local[outer_size]))
            for b in range(taps)
        ]
        rows.append((index(outer_axes[j]) * taps + index(inner_axes[j]), tuple(row)))
    return rows


def _number(spec: TableSpec, names: dict[str, Term]) -> float:
    for name, text in spec.lets.items():
        names[name] = size(text, names)
    value = size(spec.value, names)
    if not isinstance(value, int | float):
        raise Unfit(f"a table needs numbers ({spec.value.where})")
    return value


def _whole(text: Scalar, number: float) -> int:
    try:
        return integer(number)
    except ExpressionError as error:
        raise Unfit(fault_in(text, error)) from None
