"""From a rule's YAML nodes to texts with places, and from there to errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dlbuild.base.digest import Json
from dlbuild.base.errors import UserError
from dlbuild.base.spelling import suggestion
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


def fault(
    text: Scalar, error: ExpressionError, unknown: str = "", known: Iterable[str] = ()
) -> UserError:
    """Return the error of an expression at its place in the file, the caret under the fault.

    Args:
        text: the expression.
        error: what is wrong in it.
        unknown: the word that is not known, if that is what is wrong.
        known: the words that are.
    """
    line = text.source.lines[text.line - 1]
    first = text.column - 1 + text.quoted
    is_there = line.startswith(text.text.strip(), first)
    return text.source.error(
        text.line,
        first + 1 + error.offset if is_there else text.column,
        error.what if is_there else f"{error.what}, in '{text.text}'",
        fix=suggestion(unknown, known) if unknown else "",
    )
