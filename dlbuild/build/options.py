"""Options of one build: from the nodes of dlbuild.yaml and from `-D key=value`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from dlbuild.base.spelling import suggestion
from dlbuild.base.units import SIZE, whole
from dlbuild.base.yamlsrc import Node, Scalar, Source, Table, flag, integer, number, table, word
from dlbuild.build.schema import BUILD, OPTION_KEYS
from dlbuild.ir.target import Options


def read_override(text: str) -> tuple[str, Node]:
    """Read `key=value` of the command line.

    Raises:
        UserError: no value, an unknown option, or a value it cannot have.
    """
    name, equals, value = text.partition("=")
    source = Source("-D", (text,))
    key = Scalar(source, 1, 1, name)
    if not equals:
        raise key.error(f"'{text}' gives no value", fix=f"write -D {name}=VALUE")
    if name not in OPTION_KEYS:
        raise key.error(f"a build has no option '{name}'", fix=suggestion(name, OPTION_KEYS))
    node = Scalar(source, 1, len(name) + 2, value)
    BUILD.check(
        Table(source, 1, 1, {"model": Scalar(source, 1, 1, "m"), name: node}, {name: key}), "-D"
    )
    return name, node


def _beside(node: Node, path: str) -> str:
    """Return a path that is relative to the file that names it."""
    return (Path(node.source.name).parent / path).as_posix()


_WORDS = (
    *("optimize", "requantize", "input", "output", "arena", "share", "weights"),
    *("schedule", "parallel"),
)
"""Options whose value is one word; the key tables have checked which."""


def options_with(options: Options, key: str, node: Node) -> Options:
    """Return `options` with one of them set; the key tables have checked the node."""
    said = f"'{key}'"
    if key in _WORDS:
        checked: dict[str, Any] = {key: word(node, said)}  # one of the words of its field
        return replace(options, **checked)
    match key:
        case "layout":
            orders = table(node, said)
            pairs = ((tensor, word(orders[tensor], tensor)) for tensor in orders)
            return replace(options, layout=tuple(sorted(pairs)))
        case "profile":
            return replace(options, profile=_beside(node, word(node, said)))
        case "hook" | "fold_constant_channels":
            truths: dict[str, Any] = {key: flag(node, said)}
            return replace(options, **truths)
        case "image_version" | "image_address":
            numbers: dict[str, Any] = {key: integer(node, said)}
            return replace(options, **numbers)
        case "image_slot":
            return replace(options, image_slot_bytes=whole(word(node, said), SIZE))
        case "max_recompute":
            return replace(options, max_recompute=number(node, said))
        case _:
            raise AssertionError(f"the option {said} is in no key table")
