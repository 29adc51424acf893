"""The hand-written kernels that a rule states."""

from __future__ import annotations

from dlbuild.base.spelling import suggestion
from dlbuild.base.yamlsrc import Node, integer, items, number, table, word
from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.read_parts import constants, expressions, optional
from dlbuild.rulebook.rule import BlockSpec, FormSpec, KernelSpec, ScratchSpec
from dlbuild.rulebook.source import entries, expression, words

KEYS = (
    *("name", "when", "target", "let", "constants"),
    *("uses", "scratch", "samples", "keep", "rows", "columns", "blocks"),
    *("at_once", "result", "template"),
)
"""The keys of a kernel, in order."""


def kernels(node: Node | None) -> tuple[KernelSpec, ...]:
    """Return the hand-written kernels of a rule."""
    return tuple(_kernel(item) for item in (() if node is None else items(node, "kernels")))


def _kernel(node: Node) -> KernelSpec:
    owner = "a kernel"
    spec = table(node, owner)
    spec.check_keys(KEYS, owner)
    scratch = entries(spec.get("scratch"), "scratch")
    if len(scratch) > 1:
        raise spec["scratch"].error(
            "a kernel has one scratch at most", fix="use parts of one for several things"
        )
    return KernelSpec(
        name=word(spec.require("name", owner), "name"),
        when=optional(spec.get("when"), "when"),
        features=words(spec.get("target"), "target"),
        lets=expressions(spec.get("let"), "let"),
        constants=constants(spec.get("constants")),
        uses=words(spec.require("uses", owner), "uses"),
        scratch={key: _scratch(key, value) for key, value in scratch.items()},
        samples="" if (axis := spec.get("samples")) is None else word(axis, "samples"),
        keep=words(spec.get("keep"), "keep"),
        rows=words(spec.get("rows"), "rows"),
        columns=words(spec.get("columns"), "columns"),
        blocks=_blocks(spec.get("blocks")),
        at_once=_forms(spec.get("at_once")),
        result=expression(spec.require("result", owner), "result"),
        template=word(spec.require("template", owner), "template"),
    )


def _blocks(node: Node | None) -> BlockSpec | None:
    if node is None:
        return None
    owner = "'blocks'"
    found = entries(node, "blocks")
    if len(found) != 1:
        raise node.error("'blocks' are of one axis", fix="name the axis of the channels alone")
    ((axis, item),) = found.items()
    spec = table(item, owner)
    spec.check_keys(("of", "sizes"), owner)
    of = expression(spec.require("of", owner), "of")
    return BlockSpec(axis, of, words(spec.require("sizes", owner), "sizes"))


def _forms(node: Node | None) -> tuple[FormSpec, ...]:
    found = []
    for item in () if node is None else items(node, "at_once"):
        owner = "a form"
        spec = table(item, owner)
        spec.check_keys(("points", "cost", "narrow", "when"), owner)
        points = integer(spec.require("points", owner), "points", least=0)
        cost = number(spec.require("cost", owner), "cost")
        narrow = spec.get("narrow")
        narrow_cost = cost if narrow is None else number(narrow, "narrow")
        found.append(FormSpec(points, cost, narrow_cost, optional(spec.get("when"), "when")))
    return tuple(found)


def _scratch(key: str, node: Node) -> ScratchSpec:
    owner = f"the scratch '{key}'"
    spec = table(node, owner)
    spec.check_keys(("dtype", "count", "rows"), owner)
    dtype = spec.require("dtype", owner)
    if word(dtype, "dtype") not in DTYPES:
        raise dtype.error(
            f"there is no element type '{word(dtype, 'dtype')}'",
            fix=suggestion(word(dtype, "dtype"), tuple(DTYPES)),
        )
    count = expression(spec.require("count", owner), "count")
    rows = spec.get("rows")
    row_count = count if rows is None else expression(rows, "rows")
    return ScratchSpec(word(dtype, "dtype"), count, row_count)
