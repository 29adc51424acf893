"""The conditions of a strip's layers as C."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.tile_plan import RowRead


@dataclass(frozen=True, slots=True)
class Test:
    """A layer that asks: the counter of its rows, how many it has and computes at a time."""

    counter: str
    rows: int
    step: int = 1


def ready(layer: Test, read: RowRead, producer: str) -> str:
    """Return the test that the rows which the next rows need are there."""
    if read.stride == 0:
        return f"{producer} >= {read.extent}"
    end = affine(layer.counter, read.stride, read.stride * (layer.step - 1) + read.high)
    most = read.stride * (layer.rows - 1) + read.high
    is_clipped = most > read.extent or layer.rows % layer.step
    if (read.stride, layer.step, read.high, is_clipped) == (1, 1, 1, False):
        return f"{producer} > {layer.counter}"
    if is_clipped:
        return f"{producer} >= min_i32({end}, {min(most, read.extent)})"
    return f"{producer} >= {end}"


def room(layer: Test, read: RowRead, reader: str, rows: int) -> str:
    """Return the test that the next rows overwrite none that is still to be read."""
    return f"{layer.counter} < {affine(reader, read.stride, read.low + rows - layer.step + 1)}"


def affine(counter: str, stride: int, offset: int) -> str:
    """Return `stride * counter + offset` as C."""
    text = (
        counter if stride == 1 else f"({counter} * {stride})" if offset else f"{counter} * {stride}"
    )
    if not offset:
        return text
    return f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"


def condition(head: str, tests: Sequence[str], operator: str) -> str:
    """Return `head tests) {` with the tests joined, broken at the line's end as clang-format does.

    Lines that follow stand under the first test.
    """
    words = list(tests) if len(tests) == 1 else [f"({test})" for test in tests]
    sign, margin = operator.rstrip(), " " * len(head)
    line, lines = head, []
    for number, word in enumerate(words):
        is_last = number == len(words) - 1
        text = f"{word}) {{" if is_last else f"{word}{sign}"
        if number and len(line) + 1 + len(text) > COLUMNS:
            lines.append(line)
            line = margin + text
        else:
            line += f"{' ' if number else ''}{text}"
    return "\n".join([*lines, line])
