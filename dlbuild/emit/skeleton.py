"""The text of a function without its numbers: equal of functions that differ in nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d[\w.]*|\s+|.', re.DOTALL)
_NUMBER = "#"


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number, sign or comment of C. start: where it begins in the text."""

    text: str
    start: int

    @property
    def is_number(self) -> bool:
        """Whether it is a decimal integer of type int, as the extents of loops are."""
        return self.text.isdecimal() and int(self.text) < 1 << 31

    @property
    def end(self) -> int:
        """Where the next token may begin."""
        return self.start + len(self.text)


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text, without the space between them."""
    found = [Token(match[0], match.start()) for match in _TOKEN.finditer(text)]
    return [token for token in found if not token.text.isspace()]


def skeleton_of(text: str, name: str) -> tuple[str, ...]:
    """Return the tokens of a function, without its numbers and its name."""
    own = re.compile(rf"{name}(?=_|$)")
    return tuple(
        _NUMBER
        if token.is_number
        else own.sub(_NUMBER * 2, token.text, count=1)
        if own.match(token.text)
        else token.text
        for token in tokens_of(text)
    )


def numbers_of(text: str) -> tuple[int, ...]:
    """Return the numbers that the skeleton leaves out, in order."""
    return tuple(int(token.text) for token in tokens_of(text) if token.is_number)


def columns_of(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return of each number what it is in each of the texts, whose skeletons are equal."""
    return list(zip(*map(numbers_of, texts), strict=True))
