"""The node tests of the installed onnx, written as models for firmware."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Op
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.parse_graph import draft_of, node_of
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.functions import body_of

EXTENTS = frozenset({"Shape", "Size"})
"""Operators whose result is known whatever their operand holds."""


class Unsuited(Exception):  # noqa: N818 - no error: the test is counted as refused
    """Why a test has no firmware form."""


@dataclass(frozen=True)
class Case:
    """One test: inputs and the outputs due, by name. shapes: of the inputs."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    shapes: Mapping[str, tuple[int, ...]]
    rtol: float
    atol: float


@cache
def collected() -> Mapping[str, TestCase]:
    """Return onnx's node tests by name."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}


def case_of(test: TestCase, book: RuleBook) -> Case:
    """Return a test with the inputs that are structure made constants of its model.

    Raises:
        Unsuited: an input or output is no tensor of numbers.
    """
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    assert test.model is not None
    assert test.data_sets is not None
    given, due = test.data_sets[0]
    inputs = dict(named(model.graph.input, given))
    outputs = dict(named(model.graph.output, due))
    for name in sorted(structural(model, inputs, book)):
        model.graph.initializer.append(numpy_helper.from_array(inputs[name], name))
    baked = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in baked]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    live = {name: array for name, array in inputs.items() if name not in baked}
    shapes = {name: array.shape for name, array in live.items()}
    shapes |= {
        value.name: ()
        for value, array in zip(test.model.graph.input, given, strict=False)
        if isinstance(array, list) and not array
    }
    return Case(test.name, model, live, outputs, shapes, test.rtol or 1e-3, test.atol or 1e-7)


def named(values: object, arrays: object) -> Iterator[tuple[str, Array]]:
    """Yield the arrays by the names of their tensors; an absent one has none.

    Raises:
        Unsuited: one holds text.
    """
    for value, array in zip(values, arrays, strict=False):  # type: ignore[call-overload] # protobuf
        if array is None:
            continue
        if isinstance(array, list):
            # The members of a sequence have names of their own in dlbuild.
            members = [onnx.ValueInfoProto(name=f"{value.name}.{j}") for j in range(len(array))]
            yield from named(members, array)
            continue
        content = numpy_helper.to_array(array) if isinstance(array, onnx.TensorProto) else array
        content = np.asarray(content)
        if content.dtype.kind in "OUS":
            raise Unsuited(f"'{value.name}' holds text")
        yield value.name, content


def structural(model: onnx.ModelProto, inputs: Mapping[str, Array], book: RuleBook) -> set[str]:
    """Return the inputs that rules declare `value:`, directly or through arithmetic on them."""
    shapes = {name: array.shape for name, array in inputs.items()}
    try:
        draft = draft_of(model, Path("model.onnx"), shapes, book)
    except UserError:
        return set()
    producer: dict[str, Node] = {}
    wanted: list[str] = []
    pending = list(draft.nodes)
    while pending:
        node = pending.pop()
        graphs = (graph for a in node.special for graph in (a.g, *a.graphs))
        pending += [node_of(inner, draft.opsets) for graph in graphs for inner in graph.node]
        body = [] if book.rules_for(node.domain, node.kind) else expansion(draft, node)
        pending += body
        if not body:
            producer |= dict.fromkeys(filter(None, node.outputs), node)
            op = Op("", node.kind, tuple(node.inputs), tuple(node.outputs), (), node.domain)
            wanted += [node.inputs[at] for at in sorted(book.value_inputs(op))]
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name and name not in found:
            found.add(name)
            source = producer.get(name)
            if source is not None and source.kind not in EXTENTS:
                wanted += source.inputs
                wanted += [value.name for a in source.special for value in a.g.output]
    return found & inputs.keys()


def expansion(draft: Draft, node: Node) -> list[Node]:
    """Return the nodes of an operator's function body, if it can be told so early."""
    try:
        return body_of(draft, node)
    except (KeyError, UserError):
        return []
