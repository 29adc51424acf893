"""Statements of kernels that fit a line, broken as clang-format breaks them.

How long they are depends on the numbers of a model, which a template cannot know.
"""

import re

from dlbuild.emit.literals import COLUMNS

INDENT = 4
ELEMENT = re.compile(r"(\w+\[)(.*)")
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
    for parts in (_branches(line), [f"{margin}{target}", *_branches(below)]):
        if len(parts) > 1 and max(map(len, parts)) <= COLUMNS:
            return "\n".join(parts)
    lines = _operands(f"{margin}{target} ", value)
    element = ELEMENT.fullmatch(value)
    if element and len(lines[0]) > COLUMNS:
        lines = [f"{margin}{target}", *_operands(f"{margin}{' ' * INDENT}{element[1]}", element[2])]
    return "\n".join(lines)


def _operands(head: str, value: str) -> list[str]:
    """Return a sum, or a product, with as many operands in each line as fit, below each other.

    head: what stands before it.
    """
    parts = next((p for p in (_split(value, "+-"), _split(value, "*")) if len(p) > 1), [value])
    lines = [head + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= COLUMNS:
            lines[-1] += f" {part}"
        else:
            lines.append(" " * len(head) + part)
    return lines


def _split(value: str, operators: str) -> list[str]:
    """Return what stands between operators outside of parentheses, each with that behind it."""
    depth, parts = 0, [""]
    for at, character in enumerate(value):
        depth += (character in "([") - (character in ")]")
        parts[-1] += character
        is_operator = character in operators and value[at - 1] == value[at + 1] == " "
        if depth == 0 and is_operator:
            parts.append("")
    return [part.strip() for part in parts]


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
