"""Operands of which a few rows are kept in a ring: one pointer for each row, made once a call.

A ring is an index map `... % R`. Left in the address of the innermost loop it would cost a
division for each element; the rows that one call reads are known at its head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.emit.ctypes import storage
from dlbuild.emit.fit import Line
from dlbuild.emit.itext import IndexText, Place
from dlbuild.emit.lower import Lowered
from dlbuild.rulebook.index import Index, Remainder
from dlbuild.rulebook.instance import Operand


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that an access reads.

    name: of the pointer, or of the array of pointers if `axis` is not empty.
    place: where the first element of a row is.
    """

    access: str
    name: str
    axis: str
    ctype: str
    operand: str
    place: Place

    @property
    def base(self) -> str:
        """What the access addresses instead of the operand."""
        return f"{self.name}[{self.axis}]" if self.axis else self.name

    def lines(self, indices: IndexText, depth: int) -> list[Line]:
        """Return the declaration of the pointers."""
        start = f"&{self.operand}[{indices.address(self.place)}]"
        if not self.axis:
            return [Line(depth, f"const {self.ctype} *{self.name} = {start};")]
        axis, count = self.axis, self.axis.upper()
        return [
            Line(depth, f"const {self.ctype} *{self.name}[{count}];"),
            Line(depth, f"for (int32_t {axis} = 0; {axis} < {count}; ++{axis}) {{"),
            Line(depth + 1, f"{self.name}[{axis}] = {start};"),
            Line(depth, "}"),
        ]


def rows_of(
    nest: Lowered, operands: Mapping[str, Operand], names: Mapping[str, str]
) -> tuple[Lowered, tuple[Rows, ...]]:
    """Return the nest without the rings whose rows can be found at its head, and their rows."""
    found: list[Rows] = []
    place = dict(nest.place)
    for access, whole in nest.place.items():
        for number, (index, _) in enumerate(whole.parts):
            axes = _row_axes(index, nest)
            if axes is None or access in {rows.access for rows in found}:
                continue
            operand = operands[nest.access[access].operand]
            found.append(
                Rows(
                    access,
                    f"{access}_row",
                    axes[0] if axes else "",
                    storage(operand.dtype),
                    names[operand.name],
                    Place(whole.parts[number : number + 1]),
                )
            )
            place[access] = Place((*whole.parts[:number], *whole.parts[number + 1 :]))
    return replace(nest, place=place), tuple(found)


def _row_axes(index: Index, nest: Lowered) -> Sequence[str] | None:
    """Return the axis over which a ring's rows are read, none or one; None if it is no ring."""
    match index.terms:
        case ((Remainder(of, _), 1),) if not index.constant:
            axes = [axis for axis in dict.fromkeys(of.axes()) if axis not in nest.given]
            is_loop = all(a not in nest.domain and a not in nest.count for a in axes)
            return axes if len(axes) <= 1 and is_loop else None
        case _:
            return None
