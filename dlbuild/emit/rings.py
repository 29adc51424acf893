"""Operands of which a few rows are kept in a ring: where each row begins, found once a call.

A ring is an index map `... % R`. Left in the address of the innermost loop it would cost a
division for each element; the rows that one call reads are known at its head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlbuild.emit.fit import Line
from dlbuild.emit.itext import IndexText, Place
from dlbuild.emit.lower import Lowered
from dlbuild.rulebook.index import Index, Remainder, Tabled


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows begin that an access reads, counted in elements.

    name: of the variable, or of an array if `axis` is not empty. place: where a row begins.
    """

    name: str
    axis: str
    place: Place

    def lines(self, indices: IndexText, depth: int) -> list[Line]:
        """Return the declaration."""
        start = indices.address(self.place)
        if not self.axis:
            return [Line(depth, f"const int32_t {self.name} = {start};")]
        axis, count = self.axis, self.axis.upper()
        return [
            Line(depth, f"int32_t {self.name}[{count}];"),
            Line(depth, f"for (int32_t {axis} = 0; {axis} < {count}; ++{axis}) {{"),
            Line(depth + 1, f"{self.name}[{axis}] = {start};"),
            Line(depth, "}"),
        ]


def rows_of(nest: Lowered) -> tuple[Lowered, tuple[Rows, ...]]:
    """Return the nest with the rings whose rows can be found at its head, and their rows."""
    found: list[Rows] = []
    place, given = dict(nest.place), dict(nest.given)
    for access, whole in nest.place.items():
        for number, (index, stride) in enumerate(whole.parts):
            axes = _row_axes(index, nest)
            if axes is None:
                continue
            name = f"{access}_row"
            last = index.interval(nest.box)[1] * stride
            if axes:
                numbers = (*(0 for _ in range(nest.extent[axes[0]] - 1)), last)
                start = Index.atom(Tabled(Index.axis(axes[0]), name, numbers))
            else:
                start, given[name] = Index.axis(name), (0, last)
            found.append(Rows(name, axes[0] if axes else "", Place((whole.parts[number],))))
            place[access] = Place((*whole.parts[:number], (start, 1), *whole.parts[number + 1 :]))
            break
    return replace(nest, place=place, given=given), tuple(found)


def _row_axes(index: Index, nest: Lowered) -> Sequence[str] | None:
    """Return the axis over which a ring's rows are read, none or one; None if it is no ring."""
    match index.terms:
        case ((Remainder(of, _), 1),) if not index.constant:
            axes = [axis for axis in dict.fromkeys(of.axes()) if axis not in nest.given]
            is_loop = all(a not in nest.domain and a not in nest.count for a in axes)
            return axes if len(axes) <= 1 and is_loop else None
        case _:
            return None
