"""Names for numbers that had none, from what stands beside them in C."""

import re
from collections.abc import Callable, Sequence

from dlbuild.emit.skeleton import Token

_ENDINGS = {
    "*": "STEP",
    "/": "DIVISOR",
    "%": "DIVISOR",
    "+": "OFFSET",
    "-": "OFFSET",
    "<": "END",
    ">": "END",
    "[": "AT",
}
"""What a number is to the word before it, by the sign between the two."""

_MEANINGS = {
    "STEP": "elements from one to the next",
    "DIVISOR": "what it is divided by",
    "OFFSET": "what is added or taken off",
    "END": "what it stays below, or is compared with",
    "AT": "which element",
}

OTHER = "NUMBER"


def meanings_of(names: Sequence[str]) -> str:
    """Return what the endings of such names mean."""
    endings = {re.sub(r"\d+$", "", name).rpartition("_")[2] for name in names if "_" in name}
    found = [f"_{ending}: {about}" for ending, about in _MEANINGS.items() if ending in endings]
    return "; ".join(found)


def hint_of(tokens: Sequence[Token], at: int, parameters: Callable[[str], Sequence[str]]) -> str:
    """Return a name for the number there.

    Args:
        tokens: of one statement.
        at: which of them it is.
        parameters: the names of a function's parameters.
    """
    before, after = tokens[at - 1].text if at else "", tokens[at + 1].text
    if before in "(," and after in "),":
        return _parameter(tokens, at, parameters) or OTHER
    if before == "=" and at > 1 and tokens[at - 2].text in "<>=!":
        before, at = tokens[at - 2].text, at - 1
    if after in "+-" and before in "(,=" and at + 2 < len(tokens):
        word = next((t.text for t in tokens[at + 2 :] if t.text.isidentifier()), "")
        return f"{word.upper()}_{'END' if after == '-' else 'OFFSET'}" if word else OTHER
    word = _word_before(tokens, at - 1)
    ending = _ENDINGS.get(before)
    return f"{word.upper()}_{ending}" if word and ending else OTHER


def _parameter(tokens: Sequence[Token], at: int, parameters: Callable[[str], Sequence[str]]) -> str:
    """Return the name of the parameter that the number is given for."""
    depth = place = 0
    for before in range(at - 1, 0, -1):
        text = tokens[before].text
        if text == "(" and depth == 0:
            names = parameters(tokens[before - 1].text)
            return names[place].upper() if place < len(names) else ""
        depth += (text in ")]") - (text in "([")
        place += text == "," and depth == 0
    return ""


def _word_before(tokens: Sequence[Token], sign: int) -> str:
    """Return the word before a sign, or the first one inside the parentheses before it."""
    at = sign - 1
    if at >= 0 and tokens[at].text == ")":
        depth = 0
        while at >= 0:
            depth += (tokens[at].text == ")") - (tokens[at].text == "(")
            if depth == 0:
                break
            at -= 1
        inside = [token.text for token in tokens[max(at, 0) : sign]]
        return next((word for word in inside if word.isidentifier() and word.islower()), "")
    text = tokens[at].text if at >= 0 else ""
    return text if text.isidentifier() else ""


def alike_name(names: Sequence[str], hint: str) -> str:
    """Return which of several names says best what a hint says, nothing without names.

    A name that is the hint, else one of the same letter as the word in it: W for IW_END. Else
    the last, which is of the innermost loop.
    """
    if hint in names:
        return hint
    word = hint.partition("_")[0]
    return next((name for name in names if name[-1:] == word[-1:]), names[-1] if names else "")


def parameters_in(text: str, function: str) -> tuple[str, ...]:
    """Return the names of the parameters of a function, nothing if the C does not define it."""
    head = re.search(rf"^(?=\w)[^(\n]*\b{function}\(([^)]*)\)", text, re.MULTILINE)
    found = [re.findall(r"[A-Za-z_]\w*", item) for item in head[1].split(",")] if head else []
    return tuple(words[-1] for words in found if words)
