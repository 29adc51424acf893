"""C as dlbuild prints it, statement by statement, and one of them laid out anew."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dlbuild.emit.comments import filled
from dlbuild.emit.literals import COLUMNS
from dlbuild.emit.wrap import wrapped

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CALL = re.compile(r"(\s*(?:[^()]*[^()\s] )?\w+\()(.*)(\);?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, a head of a block, a comment or an empty line. text: on one line of C.

    lines: as it stands in the file.
    """

    text: str
    lines: tuple[str, ...]


def statements(text: str) -> Iterator[Statement]:
    """Yield the parts of kernels in order; all lines of all parts are the text."""
    waiting: list[str] = []
    for line in text.split("\n"):
        waiting.append(line)
        whole = _joined(waiting)
        if _is_whole(whole):
            yield Statement(whole, tuple(waiting))
            waiting = []
    assert not waiting, "C ends with a whole statement"


def _joined(lines: list[str]) -> str:
    text = lines[0].rstrip()
    for line in lines[1:]:
        text += ("" if text.endswith(("(", "{")) else " ") + line.strip()
    return text


def _is_whole(text: str) -> bool:
    if text.count("/*") > text.count("*/"):
        return False
    bare = _COMMENT.sub("", text).rstrip()
    if not bare or bare.startswith("#"):
        return not bare.endswith("\\")
    is_balanced = sum(bare.count(c) for c in "([") == sum(bare.count(c) for c in ")]")
    is_head = re.match(r"static |[A-Z_]+\(", bare) is not None and bare.endswith(")")
    return is_balanced and (bare.endswith((";", "{", "}", ":")) or is_head)


def laid_out(text: str) -> list[str] | None:
    """Return the lines of a statement that was changed, None if nobody knows how to break it.

    text: on one line.
    """
    if len(text) <= COLUMNS:
        return [text]
    call = call_of(text)
    found = wrapped(text) if call is None else filled(*call)
    lines = found.split("\n")
    return lines if max(map(len, lines)) <= COLUMNS else None


def call_of(text: str) -> tuple[str, list[str], str] | None:
    """Return what stands before the arguments of a call or a function's head, these, and the rest.

    None if the statement is no call as a whole.
    """
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    head, inner, tail = found.groups()
    items = arguments_of(inner)
    return None if items is None else (head, items, tail)


def arguments_of(inner: str) -> list[str] | None:
    """Return what commas separate at the outermost level, None if a parenthesis is never closed."""
    depth, items = 0, [""]
    for character in inner:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return None
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items]
