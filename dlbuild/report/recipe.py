"""The keys of a recipe as a page, from the schema that editors are given."""

from collections.abc import Iterator, Mapping

from dlbuild.base.digest import Json
from dlbuild.report.text import markdown_text

Table = Mapping[str, Json]

_HEADER = ("key", "value", "meaning")

_SECTIONS = (
    ("dlbuild.yaml", "At the top."),
    ("models", "Of each model, `models.NAME.` in front."),
    ("targets", "Of each target, `targets.NAME.` in front."),
    ("builds", "Of each entry of the list `builds`; all options of models and targets as well."),
)


def keys_text(schema: Table) -> Iterator[str]:
    """Yield a Markdown table for each level of a recipe: its keys, their values, what they mean."""
    told: set[tuple[str, str, str]] = set()
    for name, about in _SECTIONS:
        is_top = name == "dlbuild.yaml"
        node = schema if is_top else _inside(_child(_child(schema, "properties"), name))
        rows = list(_rows(node, "", is_top=is_top))
        if name == "builds":
            rows = [row for row in rows if row not in told]
        told.update(rows)
        yield from (f"## {name}", "", about, "", *markdown_text(_HEADER, rows), "")


def _rows(node: Table, prefix: str, *, is_top: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a table and those of the tables in it."""
    for name, value in _child(node, "properties").items():
        assert isinstance(value, Mapping), "a schema is made of tables"
        about = str(value.get("description", ""))
        if "not yet supported" in about:
            continue
        yield f"`{prefix}{name}`", _kind(value), about
        if is_top:
            continue
        inner = _inside(value)
        if "properties" in inner:
            between = "NAME." if "additionalProperties" in value and inner is not value else ""
            yield from _rows(inner, f"{prefix}{name}.{between}")


def _child(node: Table, name: str) -> Table:
    found = node.get(name, {})
    return found if isinstance(found, Mapping) else {}


def _inside(node: Table) -> Table:
    """Return the table in which the keys of a value stand: its own, or that of its entries."""
    for key in ("additionalProperties", "items"):
        inner = node.get(key)
        if isinstance(inner, Mapping):
            return _inside(inner)
    choices = node.get("anyOf")
    if isinstance(choices, list):
        return next((_inside(one) for one in choices if "properties" in _inside(one)), {})
    return node


def _kind(node: Table) -> str:
    """Say which values there are, in words."""
    choices = node.get("enum")
    if isinstance(choices, list):
        return ", ".join(f"`{one}`" for one in choices)
    several = node.get("anyOf")
    if isinstance(several, list):
        return " or ".join(dict.fromkeys(_kind(one) for one in several))
    match node.get("type"):
        case "array":
            return f"list of {_kind(_child(node, 'items'))}"
        case "object":
            return "table"
        case "boolean":
            return "`true`, `false`"
        case "integer":
            return "whole number"
        case "number":
            return "number"
        case _:
            return _units(str(node.get("pattern", "")))


_NUMBER = r"^[0-9]+(\.[0-9]+)? *("


def _units(pattern: str) -> str:
    """Return what a text is: a number with a unit, or any word."""
    if not pattern.startswith(_NUMBER):
        return "text"
    return f"number and {', '.join(f'`{unit}`' for unit in pattern[len(_NUMBER) : -2].split('|'))}"
