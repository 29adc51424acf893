"""Statements of templates that fit a line, broken as clang-format breaks them.

How long they are depends on the numbers of a model, which a template cannot know.
"""

import re

from dlbuild.emit.literals import COLUMNS

INDENT = 4
STATEMENT = re.compile(r"( *)([^\n=]*? [-+*/]?=) ([^\n]*;)")


def wrapped(text: str) -> str:
    """Return C in which assignments that are too long for a line take two, or three."""
    return "\n".join(_broken(line) if len(line) > COLUMNS else line for line in text.split("\n"))


def _broken(line: str) -> str:
    found = STATEMENT.fullmatch(line)
    if found is None:
        return line
    margin, target, value = found.groups()
    below = f"{margin}{' ' * INDENT}{value}"
    if len(below) <= COLUMNS:
        return f"{margin}{target}\n{below}"
    branches = _branches(line)
    if max(map(len, branches)) > COLUMNS:
        branches = [f"{margin}{target}", *_branches(below)]
    return "\n".join(branches)


def _branches(line: str) -> list[str]:
    """Return `test ? a` and `: b` below each other, if the line is a choice."""
    depth, question = 0, -1
    for at, character in enumerate(line):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character == "?" and question < 0:
            question = at
        elif depth == 0 and character == ":" and question >= 0:
            return [line[:at].rstrip(), " " * question + line[at:]]
    return [line]
