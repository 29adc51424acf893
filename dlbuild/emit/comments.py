"""Text from a model, made safe and short enough to stand in a C comment."""

import textwrap
from collections.abc import Sequence

from dlbuild.emit.literals import COLUMNS

ELLIPSIS = "..."


def quoted(name: str, room: int = 60) -> str:
    """Return `name` in single quotes, legal in a block comment, at most `room` characters."""
    return f"'{shortened(name, room - 2)}'"


def shortened(name: str, room: int = 40) -> str:
    """Return `name`, legal in a block comment, at most `room` characters.

    Control characters and all that is not ASCII are escaped (a bidirectional mark could make
    code look like comment); of a long name both ends stay.
    """
    plain = name.encode("unicode_escape").decode("ascii")
    # Comment borders, and trigraphs, which -Wall warns of even in comments.
    for old, new in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?")):
        while old in plain:
            plain = plain.replace(old, new)
    if len(plain) > room:
        kept = max(room - len(ELLIPSIS), 2)
        plain = plain[: kept // 2] + ELLIPSIS + plain[-(kept - kept // 2) :]
    return plain


def extents(shape: Sequence[int]) -> str:
    """Return a shape as C writes it: [1][49][10]; of a scalar [1]."""
    return "".join(f"[{extent}]" for extent in shape) or "[1]"


def block(text: str, margin: str = "", opener: str = "/*") -> str:
    """Return `text` as a block comment, broken at the line's end between words."""
    room = COLUMNS - len(margin)
    lines = textwrap.wrap(
        f"{opener} {text} */",
        room,
        subsequent_indent=" * ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if lines[-1] == " * */":
        lines[-1] = " */"
    return "\n".join(f"{margin}{line}" for line in lines)


def wrapped(text: str, room: int) -> list[str]:
    """Return `text` as lines of at most `room` characters, broken between words."""
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)


def filled(prefix: str, items: Sequence[str], suffix: str) -> str:
    """Return `prefix`, the items separated by commas, and `suffix`, broken at the line's end.

    Lines that follow stand under the first item, as clang-format aligns arguments; behind the `=`
    of an assignment, if that takes fewer of them; or, if one of them is too long for that, all
    items four columns to the right of the start.
    """
    found = _filled(prefix, items, suffix)
    margin = " " * (len(prefix) - len(prefix.lstrip()) + 4)
    variable, is_assigned, function = prefix.partition(" = ")
    if is_assigned:
        below = _filled(margin + function, items, suffix)
        if _fits(below) and below.count("\n") < found.count("\n"):
            return f"{variable} =\n{below}"
    return found if _fits(found) else f"{prefix}\n{_filled(margin, items, suffix)}"


def _fits(text: str) -> bool:
    return all(len(line) <= COLUMNS for line in text.split("\n"))


def _filled(prefix: str, items: Sequence[str], suffix: str) -> str:
    line, lines = prefix, []
    for position, item in enumerate(items):
        is_last = position == len(items) - 1
        word = item + (suffix if is_last else ",")
        space = "" if line == prefix or not line.strip() else " "
        if position and len(line) + len(space) + len(word) > COLUMNS:
            lines.append(line)
            line, space = " " * len(prefix), ""
        line += space + word
    if not items:
        line += suffix
    return "\n".join([*lines, line])
