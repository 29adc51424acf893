"""From a rule's YAML nodes to texts with places, and from there to errors."""

from __future__ import annotations

from collections.abc import Mapping

from dlbuild.base.digest import Json
from dlbuild.base.errors import UserError
from dlbuild.base.yamlsrc import Items, Node, Scalar, Table
from dlbuild.rulebook.pack import ExpressionError


def plain(node: Node) -> Json:
    """Return the content of a node without places."""
    match node:
        case Scalar():
            return node.text
        case Items():
            return [plain(item) for item in node]
        case Table():
            return {key: plain(value) for key, value in node.values.items()}


def expression(node: Node, owner: str) -> Scalar:
    """Return a node that holds an expression, or say what it is instead."""
    if isinstance(node, Scalar):
        return node
    raise node.error(f"{owner} must be an expression", fix="quote it if it begins with [ or {")


def entries(node: Node | None, owner: str) -> Mapping[str, Node]:
    """Return the entries of a table; nothing if there is none."""
    if node is None:
        return {}
    if isinstance(node, Table):
        return node.values
    raise node.error(f"{owner} must be a table of names")


def words(node: Node | None, owner: str) -> tuple[str, ...]:
    """Return a list of words; nothing if there is none."""
    if node is None:
        return ()
    if isinstance(node, Items) and all(isinstance(item, Scalar) for item in node):
        return tuple(item.text for item in node if isinstance(item, Scalar))
    raise node.error(f"{owner} must be a list of words")


def fault(text: Scalar, error: ExpressionError) -> UserError:
    """Return the error of an expression at its place in the file, the caret under the fault."""
    what, _, fix = error.what.partition(": did you mean")
    column = text.column
    line = text.source.lines[text.line - 1]
    first = text.column - 1 + text.quoted
    if line.startswith(text.text.strip(), first):
        column = first + 1 + error.offset
    return text.source.error(
        text.line,
        column,
        f"{what}, in '{text.text}'" if line.find(text.text) < 0 else what,
        fix=f"did you mean{fix}" if fix else "",
    )
