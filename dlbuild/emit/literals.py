"""Tables of numbers as C99 text that gives the same bits back.

Three forms. Braces: a list of numbers, for people; 1.7 to 8 seconds of compile time for a million
elements. Text: string literals, 0.2 to 0.8 seconds for the same, and 60 bytes of the compiler's
memory for each float. Repeated: one number and macros that multiply it, whatever the count.
Measurements: gcc 12 and clang 14, 2026-11.
"""

from dataclasses import dataclass
from math import gcd, isinf, isnan

import numpy as np
from numpy.typing import NDArray

from dlbuild.ir.dtype import DTYPES

Array = NDArray[np.generic]

COLUMNS = 100
"""Longest line of generated C."""

STRING_LIMIT = 4095
"""Characters that C99 promises to accept in one string literal (5.2.4.1)."""

_BYTES_PER_LINE = 24
_MACRO_FACTOR = 16
_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Chunks:
    """The shape of a table of bytes that is written as `rows` string literals of `columns`."""

    rows: int
    columns: int


def chunks(size_bytes: int) -> Chunks:
    """Return the fewest equal chunks within the limit of C99, without a rest if that is possible.

    With a rest, fewer bytes than there are rows stay zero at the end.
    """
    fewest = -(-size_bytes // STRING_LIMIT)
    for rows in range(fewest, 2 * fewest + 1):
        if size_bytes % rows == 0:
            return Chunks(rows, size_bytes // rows)
    return Chunks(fewest, -(-size_bytes // fewest))


def text(content: bytes) -> str:
    """Return `content` as the initialiser of an `unsigned char` array shaped as `chunks` says."""
    shape = chunks(len(content))
    at_once = max(1, _BYTES_AT_ONCE // shape.columns) * shape.columns
    parts = [
        _literals(np.frombuffer(content[first : first + at_once], np.uint8), shape.columns)
        for first in range(0, len(content), at_once)
    ]
    return "{\n" + ",\n".join(parts) + "\n}"


def _literals(content: NDArray[np.uint8], columns: int) -> str:
    """Return string literals of `columns` bytes, each over several lines, with commas between."""
    n_rows, per_row = -(-content.size // columns), -(-columns // _BYTES_PER_LINE)
    filled = np.full(n_rows * columns, _NOTHING, np.uint16)
    filled[: content.size] = content
    cells = np.full((n_rows, per_row * _BYTES_PER_LINE), _NOTHING, np.uint16)
    cells[:, :columns] = filled.reshape(n_rows, columns)
    lines = cells.reshape(-1, _BYTES_PER_LINE)
    rows = np.repeat(np.arange(n_rows), per_row)
    is_there = lines[:, 0] != _NOTHING
    lines, rows = lines[is_there], rows[is_there]
    # A cell is four bytes. Those that are zero stand for nothing.
    framed = np.empty((len(lines), _BYTES_PER_LINE + 2), _SPELLED.dtype)
    framed[:, 1:-1] = _SPELLED[lines]
    framed[:, 0] = _FRAME[0]
    framed[:, -1] = _FRAME[1]
    framed[:-1, -1][rows[1:] != rows[:-1]] = _FRAME[2]
    framed[-1, -1] = _FRAME[0]
    return framed.tobytes().translate(None, b"\0").decode("ascii")


def braces(values: Array, dtype: str) -> str:
    """Return `values`, flattened, as an initialiser in braces, aligned in columns.

    Args:
        values: numbers; bit patterns (unsigned) where C has no literal for the dtype.
        dtype: element type, as in `ir.dtype`.
    """
    flat = values.reshape(-1)
    if flat.dtype.itemsize == 1 and flat.dtype.kind in "iu":
        return _narrow_braces(flat)
    words = [number(value, dtype) for value in flat.tolist()]
    width = max(map(len, words))
    per_line = _per_line(width)
    rows = (words[at : at + per_line] for at in range(0, len(words), per_line))
    lines = ("    " + ", ".join(word.rjust(width) for word in row) for row in rows)
    return "{\n" + ",\n".join(lines) + ",\n}"


def repeated(word: str, count: int, macro: str) -> str:
    """Return an initialiser of `count` times `word`; `macro(v)` must stand for 16 times `v`."""
    lines: list[str] = []
    rest, item = count, word
    while rest:
        rest, times = divmod(rest, _MACRO_FACTOR)
        per_line = _per_line(len(item))
        items = [item] * times
        lines += [", ".join(items[at : at + per_line]) for at in range(0, times, per_line)]
        item = f"{macro}({item})"
    return "{\n" + "".join(f"    {line},\n" for line in reversed(lines)) + "}"


def repeated_text(element: bytes, count: int, macro: str, row: str) -> tuple[str, str]:
    """Return the definition of a macro `row`, and `count` times an element as text made of it.

    A compiler takes it like `text`, whatever the count, where it would take a hundred times longer
    for numbers. The initialiser is of an array shaped as `chunks` says; `macro` as in `repeated`.
    """
    columns = chunks(len(element) * count).columns
    n_rows = len(element) // gcd(columns, len(element))  # from then on elements begin as before
    rows = np.frombuffer(element * (n_rows * columns // len(element)), np.uint8)
    lines = _literals(rows, columns).split("\n")
    definition = " \\\n".join([f"#define {row}", *(f"    {line}" for line in lines)])
    times, rest = divmod(len(element) * count, rows.size)
    first = repeated(row, times, macro)[:-1]
    last = f"{_literals(rows[:rest], columns)}\n" if rest else ""
    return definition, f"{first}{last}}}"


def repeater(macro: str) -> str:
    """Return the definition of the macro that `repeated` needs."""
    return f"#define {macro}(v) " + ", ".join("v" * _MACRO_FACTOR)


def is_uniform(values: Array) -> bool:
    """Return whether all elements have the same bits."""
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(values.size, -1)
    return bool(values.size) and bool((flat == flat[0]).all())


def number(value: float, dtype: str) -> str:
    """Return one number as a constant expression of the type that stores the dtype.

    float32 and float64 are in hexadecimal, which no compiler rounds.
    """
    kind = DTYPES[dtype].kind
    if dtype in ("float32", "float64"):
        return _real(value, "F" if dtype == "float32" else "")
    if kind == "float":
        return f"0x{int(value):0{DTYPES[dtype].bits // 4}x}U"
    if kind == "bool":
        return "true" if value else "false"
    return _integer(int(value), dtype)


def _integer(value: int, dtype: str) -> str:
    # 2147483648 does not fit an int, so the lowest numbers are written as a sum.
    if dtype == "int64" and value == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    if dtype == "int32" and value == -(1 << 31):
        return "(-2147483647 - 1)"
    if dtype == "int64" and not -_INT32_MAX <= value <= _INT32_MAX:
        return f"{value}LL"
    if dtype == "uint64" and value > _INT32_MAX:
        return f"{value}ULL"
    return f"{value}U" if dtype in ("uint32", "uint64") else str(value)


def _real(value: float, suffix: str) -> str:
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if value == 0:
        return f"{value:.1f}{suffix}"
    mantissa, exponent = float(value).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}{suffix}"


def _narrow_braces(flat: Array) -> str:
    lowest = -128 if flat.dtype.kind == "i" else 0
    width = 4 if flat.dtype.kind == "i" else 3
    table = [f"{value:>{width}}, " for value in range(lowest, lowest + 256)]
    per_line = _per_line(width)
    lookup = np.array(table, dtype="S").view(np.uint8).reshape(256, -1)
    order = flat.view(np.uint8) if lowest == 0 else flat.astype(np.int16) + 128
    cells = lookup[order]
    full = len(flat) // per_line * per_line
    rows = cells[:full].reshape(-1, per_line * lookup.shape[1]).copy()
    rows[:, -1] = ord("\n")
    margin = np.full((len(rows), 4), ord(" "), np.uint8)
    body = np.hstack((margin, rows)).tobytes().decode("ascii")
    rest = cells[full:].tobytes().decode("ascii").rstrip(" ")
    return "{\n" + body + (f"    {rest}\n" if rest else "") + "}"


def _per_line(width: int) -> int:
    """The power of two that fits after the margin, each word with its comma and space."""
    fits = max(1, (COLUMNS - 3) // (width + 2))
    return 1 << (fits.bit_length() - 1)


_BYTES_AT_ONCE = 1 << 16  # so that all of it stays in the processor's cache
_NOTHING = 256
_ESCAPED = frozenset(b'"\\?')
"""A question mark might begin a trigraph (C99 5.2.1.1)."""


def _spelled(byte: int) -> str:
    """Return a byte as itself if it prints, else as the three digits that end by themselves."""
    is_itself = ord(" ") <= byte <= ord("~") and byte not in _ESCAPED
    return chr(byte) if is_itself else f"\\{byte:03o}"


_SPELLED = np.array([*map(_spelled, range(256)), ""], dtype="S4").view(np.uint32)
_FRAME = np.array(['"', '"\n', '",\n'], dtype="S4").view(np.uint32)
"""What begins a line, ends it, and ends the last one of a literal that another follows."""
