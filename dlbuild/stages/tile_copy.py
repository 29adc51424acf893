"""The copies of a window between two memories, as C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count as count_from
from math import prod

from dlbuild.emit.comments import filled
from dlbuild.emit.fit import declared_sum
from dlbuild.emit.itext import bare
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.tile_plan import NearBuffer
from dlbuild.stages.tile_fields import PART, Span
from dlbuild.stages.tile_nest import near_pitch, order_of
from dlbuild.stages.tile_space import Moved

_MARGIN = "    "


@dataclass(frozen=True)
class Source:
    """Where a window lies in the farther memory.

    pitch: elements from one index to the next there. origins: for each axis what the first index
    is that lies there: a number, or a field of the part.
    """

    pitch: Sequence[int]
    origins: Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Copy:
    """How a window of an operand is copied, in C.

    loops: (variable, count) of the copies of two dimensions that it takes. call: one of them, and
    before it a far place that is too long for a line.
    count: how many that are.
    """

    loops: tuple[tuple[str, str], ...]
    call: str
    count: tuple[str, ...]


def copied(
    channel: int, moved: Moved, buffer: NearBuffer, spans: Sequence[Span], there: Source
) -> Copy:
    """Return the copies of a window: runs of bytes, rows of runs, loops over the rest."""
    far, near = there.pitch, near_pitch(moved, buffer)
    axes = [axis for axis in order_of(moved) if buffer.shape[axis] > 1]
    run, size = [str(moved.element_bytes)], 1
    while axes and len(run) == 1 and far[axes[-1]] == near[axes[-1]] == size:
        count = spans[axes.pop()].count
        if isinstance(count, int):
            size *= count
            run = [str(size * moved.element_bytes)]
        else:
            run.append(f"task->{count}")
    rows = axes.pop() if axes else None
    loops = tuple((f"at{level}", _count(spans[axis])) for level, axis in enumerate(axes))
    variable = {axis: loop[0] for axis, loop in zip(axes, loops, strict=True)}
    near_at = _sum([_product(variable[a], near[a]) for a in axes])
    far_at = _sum(
        [
            _product(_from(span.first, there.origins[a], variable.get(a)), far[a])
            for a, span in enumerate(spans)
        ]
    )
    pitches = [0, 0] if rows is None else [far[rows], near[rows]]
    ways = (0, 1) if moved.is_output else (1, 0)
    sizes = [
        unsigned(run),
        "1U" if rows is None else unsigned([_count(spans[rows])]),
        *(f"{pitches[which] * moved.element_bytes}U" for which in ways),
    ]

    def call(far_at: str) -> str:
        ends = (_at(moved.operand.name, far_at), _at(f"near_{moved.operand.name}", near_at))
        places = [ends[which] for which in ways]
        return filled(f"{_MARGIN * depth}dlb_copy_start(", [f"{channel}U", *places, *sizes], ");")

    depth = 1 + len(loops)
    text = call(far_at)
    if max(map(len, text.split("\n"))) > COLUMNS:
        name = f"{moved.operand.name}_at"
        numbers = count_from(2)
        lines = declared_sum(depth, name, far_at, lambda: f"{name}{next(numbers)}")
        text = "\n".join([*map(str, lines), call(name)])
    return Copy(loops, text, tuple(count for _, count in loops))


def _at(pointer: str, index: str) -> str:
    return pointer if index == "0" else f"&{pointer}[{index}]"


def _count(span: Span) -> str:
    return str(span.count) if isinstance(span.count, int) else f"task->{span.count}"


def _from(first: str | int, origin: str | int, variable: str | None) -> str:
    start = f"task->{first}" if isinstance(first, str) else str(first)
    if isinstance(origin, str):
        start = f"({start} - {PART}->{origin})"
    elif origin:
        start = f"({start} - {origin})" if isinstance(first, str) else str(first - origin)
    if variable is None:
        return start
    return variable if start == "0" else f"({start} + {variable})"


def _product(value: str, factor: int) -> str:
    if value == "0":
        return "0"
    return value if factor == 1 else f"({value} * {factor})"


def _sum(parts: Sequence[str]) -> str:
    found = [part for part in parts if part != "0"]
    return bare(" + ".join(found) or "0")


def unsigned(factors: Sequence[str]) -> str:
    """Return a product as an unsigned number in C."""
    known = prod(int(f) for f in factors if f.isdigit())
    others = [f for f in factors if not f.isdigit()]
    if not others:
        return f"{known}U"
    words = [*others, *([str(known)] if known != 1 else [])]
    return f"(uint32_t){words[0]}" if len(words) == 1 else f"(uint32_t)({' * '.join(words)})"
