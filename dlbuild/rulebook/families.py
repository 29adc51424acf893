"""A family: one skeleton and a line for each operator, expanded to one document for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dlbuild.base.yamlsrc import Items, Node, Scalar, Table, table

_STEPS_ALONE = frozenset(("value", "fold"))
_OPERAND = re.compile(r"[-+*/%] *\bVALUE\b|\bVALUE\b *[-+*/%]")
_VALUE = re.compile(r"\bVALUE\b")


def expand(document: Table) -> Iterator[tuple[Table, bool]]:
    """Yield the document of each operator; a document with `op` is its own.

    Beside it stands whether it differs from the skeleton in what its steps compute alone.
    """
    if "family" not in document:
        yield document, False
        return
    operators = table(document.require("ops", "a family"), "ops")
    for kind, key in operators.keys.items():
        line = _line(operators[kind])
        yield _member(document, key, line), _STEPS_ALONE.issuperset(line.values)


def _line(node: Node) -> Table:
    if isinstance(node, Table):
        return node
    if isinstance(node, Scalar):
        return Table(node.source, node.line, node.column, {"value": node}, {"value": node})
    raise node.error("a line must be an expression or a table of keys")


def _member(document: Table, kind: Scalar, line: Table) -> Table:
    values = {key: node for key, node in document.values.items() if key not in {"family", "ops"}}
    keys = {key: node for key, node in document.keys.items() if key in values}
    parts = dict(line.values)
    value = parts.pop("value", None)
    fold = parts.pop("fold", None)
    for key, node in parts.items():
        values[key] = _merged(values.get(key), node)
        keys.setdefault(key, line.keys[key])
    if value is None and "chain" in values:
        value = replace(line.keys["chain"], text="CHAIN")
    if "summary" in values:
        values["summary"] = _filled_summary(values["summary"], value)
    for key in ("steps", "variants"):
        if key in values:
            values[key] = _filled(values[key], value, fold)
    return Table(
        document.source,
        kind.line,
        kind.column,
        {"op": kind, **values},
        {"op": kind, **keys},
    )


def _merged(old: Node | None, new: Node) -> Node:
    if not isinstance(old, Table) or not isinstance(new, Table):
        return new
    return replace(
        new,
        values={**old.values, **new.values},
        keys={**old.keys, **new.keys},
    )


def _filled(node: Node, value: Node | None, fold: Node | None) -> Node:
    match node:
        case Scalar():
            return _filled_text(node, value, fold)
        case Items():
            return replace(node, items=tuple(_filled(item, value, fold) for item in node))
        case Table():
            filled: Mapping[str, Node] = {
                key: _filled(part, value, fold) for key, part in node.values.items()
            }
            return replace(node, values=filled)


def _filled_text(node: Scalar, value: Node | None, fold: Node | None) -> Node:
    if node.text == "FOLD":
        if fold is None:
            raise node.error("the skeleton has FOLD, but this operator's line has no 'fold'")
        return fold
    if not _VALUE.search(node.text):
        return node
    if not isinstance(value, Scalar):
        raise node.error("the skeleton has VALUE, but this operator's line has no expression")
    if node.text == "VALUE":
        return value
    return replace(node, text=_put(value.text, node.text))


def _filled_summary(node: Node, value: Node | None) -> Node:
    """Fill a formula for people: without brackets where nothing binds closer."""
    if not isinstance(node, Scalar) or not isinstance(value, Scalar) or _OPERAND.search(node.text):
        return _filled(node, value, None)
    return replace(node, text=_VALUE.sub(lambda _: value.text, node.text))


def _put(value: str, text: str) -> str:
    inside = value if value.replace("_", "").isalnum() else f"({value})"
    return _VALUE.sub(lambda _: inside, text)
