"""Index maps without the divisions, remainders and folds that change nothing over a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dlbuild.rulebook.index import Atom, Folded, Index, Loaded, Quotient, Remainder


def simplified(place: Index, box: Mapping[str, tuple[int, int]]) -> Index:
    """Return a map that has the same value at each point of the box, in fewer operations.

    box: the half-open range of each axis, none of them empty.
    """
    if all(isinstance(atom, str) for atom, _ in place.terms):
        return place
    total = Index((), place.constant)
    for atom, factor in place.terms:
        total = total + _simplified(atom, box) * factor
    return total


def _simplified(atom: Atom, box: Mapping[str, tuple[int, int]]) -> Index:
    match atom:
        case str():
            return Index.axis(atom)
        case Loaded():
            return Index.atom(replace(atom, at=tuple(simplified(i, box) for i in atom.at)))
        case Quotient(of, by):
            inner = simplified(of, box)
            low, high = inner.interval(box)
            return Index((), low // by) if low // by == high // by else inner // by
        case Remainder(of, by):
            inner = simplified(of, box)
            low, high = inner.interval(box)
            return inner - low // by * by if low // by == high // by else inner % by
        case Folded(_, of, extent):
            inner = simplified(of, box)
            low, high = inner.interval(box)
            is_inside = low >= 0 and high < extent
            return inner if is_inside else Index.atom(replace(atom, of=inner))
        case _:
            return Index.atom(replace(atom, of=simplified(atom.of, box)))
