"""Parts of a rule that several of its keys are made of."""

from __future__ import annotations

from collections.abc import Mapping

from dlbuild.base.yamlsrc import Items, Node, Scalar, table, word
from dlbuild.rulebook.rule import ConstantSpec, MapSpec
from dlbuild.rulebook.source import entries, expression, words


def word_of(node: Node | None) -> str:
    """Return the word of a node, nothing if there is none."""
    return "" if node is None else word(node, "this").strip()


def optional(node: Node | None, owner: str) -> Scalar | None:
    """Return the expression of a node, None if there is none."""
    return None if node is None else expression(node, owner)


def expressions(node: Node | None, owner: str) -> Mapping[str, Scalar]:
    """Return a table of expressions."""
    return {
        key: expression(value, f"{owner} of '{key}'") for key, value in entries(node, owner).items()
    }


def maps(node: Node | None, owner: str) -> Mapping[str, MapSpec]:
    """Return index maps by the names of their accesses."""
    return {key: _map(key, value, owner) for key, value in entries(node, owner).items()}


def constants(node: Node | None) -> Mapping[str, ConstantSpec]:
    """Return the numbers that the build computes, by name."""
    return {key: _constant(key, value) for key, value in entries(node, "constants").items()}


def fold(key: str, node: Node) -> tuple[Scalar, Scalar]:
    """Return the start and the update of a fold variable."""
    parts = tuple(node) if isinstance(node, Items) else ()
    match parts:
        case (Scalar() as start, Scalar() as each):
            return start, each
        case _:
            raise node.error(f"the fold '{key}' must be [start, each]")


def _map(key: str, node: Node, owner: str) -> MapSpec:
    if isinstance(node, Scalar):
        return MapSpec(key, node)
    spec = table(node, f"{owner} of '{key}'")
    spec.check_keys(("of", "at"), f"{owner} of '{key}'")
    of = word(spec.require("of", f"{owner} of '{key}'"), "of")
    return MapSpec(of, expression(spec.require("at", f"{owner} of '{key}'"), "at"))


def _constant(key: str, node: Node) -> ConstantSpec:
    owner = f"the constant '{key}'"
    spec = table(node, owner)
    spec.check_keys(("at", "over", "read", "along", "fold", "dtype", "value"), owner)
    folds = entries(spec.get("fold"), "fold")
    return ConstantSpec(
        optional(spec.get("at"), "at"),
        expressions(spec.get("over"), "over"),
        maps(spec.get("read"), "read"),
        tuple(name.removesuffix("...") for name in words(spec.get("along"), "along")),
        {name: fold(name, pair) for name, pair in folds.items()},
        expression(spec.require("dtype", owner), "dtype"),
        expression(spec.require("value", owner), "value"),
    )
