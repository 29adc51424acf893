"""Each rule file says what it is about, and what it says is what ONNX says.

The cases are onnx's own node tests; those of domains that onnx does not have stand in
`tests/run/test_contrib_rules.py`. Nothing is compiled here: the steps are carried out with numpy.
Of a rule with a C template of its own it is checked that it takes a case.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import yaml

from dlbuild.base.errors import UserError
from dlbuild.emit.ctypes import STORAGE
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.weights import dtype_name
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import Wish, match
from tests.node_graph import graph_of

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "rules" / "ops").glob("*.yaml"))
MICROSOFT = "com.microsoft"
OURS = "dlbuild"
COMPLETED = frozenset({"ConstantOfShape", "LSTM"})
"""What cases lack parse adds: an LSTM's further results, the content of an attribute's tensor.

So it does with the count of rules with `run_time_size`; `tests/run/test_conformance.py` has them.
"""
ELSEWHERE = frozenset({"GlobalLpPool", "MaxRoiPool", "SimplifiedLayerNormalization"})
"""Operators of which onnx has no case; `tests/unit/stages/parse`, `tests/run/test_rewritten.py` and
`test_contrib_rules.py` compare them with ONNX Runtime."""


@dataclass(frozen=True)
class Case:
    """One of onnx's cases: a model of one node, what it is given, and what is due."""

    name: str
    model: onnx.ModelProto
    given: tuple[object, ...]
    due: tuple[object, ...]
    rtol: float

    @property
    def node(self) -> onnx.NodeProto:
        node: onnx.NodeProto = self.model.graph.node[0]
        return node


@cache
def book() -> RuleBook:
    return load_rules([ROOT])


@cache
def node_cases() -> Mapping[str, list[Case]]:
    """Return onnx's cases that consist of one node, by operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415 - makes all cases

        loaded = load_model_tests(kind="node")
    found: dict[str, list[Case]] = {}
    for test in loaded:
        if test.model is not None and test.data_sets and len(test.model.graph.node) == 1:
            given, due = (tuple(map(plain, part)) for part in test.data_sets[0])
            case = Case(test.name, test.model, given, due, test.rtol)
            found.setdefault(case.node.op_type, []).append(case)
    return found


def plain(value: object) -> object:
    """Return an array where onnx gives a message, as it does for types that numpy lacks."""
    if isinstance(value, onnx.TensorProto) and value.data_type != onnx.TensorProto.STRING:
        return onnx.numpy_helper.to_array(value)
    return value


def documents(path: Path) -> Iterator[dict[str, object]]:
    yield from yaml.safe_load_all(path.read_text())


def operators(document: Mapping[str, object]) -> list[str]:
    listed = document.get("ops")
    return [str(document["op"])] if "op" in document else list(listed)  # type: ignore[call-overload] # a map


def attributes(document: Mapping[str, object], kind: str) -> dict[str, object]:
    """Return what a rule says of an operator's attributes, its line of a family included."""
    listed = document.get("ops")
    line = listed[kind] if isinstance(listed, dict) else {}
    own = line.get("attributes", {}) if isinstance(line, dict) else {}
    shared = document.get("attributes", {})
    assert isinstance(shared, dict)
    return {**shared, **own}


def checked(case: Case) -> str:
    """Return what is wrong with a case, or nothing; raise UserError if no rule takes it."""
    names = [entry.name for entry in case.model.graph.input]
    arrays = [a for a in (*case.given, *case.due) if isinstance(a, np.ndarray | np.generic)]
    if len(arrays) < len(case.given) + len(case.due):
        raise UserError("a sequence or a missing tensor")
    if any(dtype_name(np.asarray(a)) not in STORAGE for a in arrays):
        raise UserError("an element type that generated C does not hold")
    inputs = dict(zip(names, map(np.asarray, case.given), strict=True))
    results = [entry.name for entry in case.model.graph.output]
    outputs = dict(zip(results, map(np.asarray, case.due), strict=True))
    graph = graph_of(case.model, inputs, outputs, book())
    instance = match(graph.ops[0], graph, book(), Wish())
    if not instance.nests:
        return ""  # it has a C template instead of steps: that it matches is all to say here
    operands = [operand for operand in instance.operands if operand.role == "input"]
    found = interpret(instance, {o.name: inputs[o.tensor] for o in operands})
    for operand in instance.operands:
        if operand.role == "output" and operand.tensor in outputs:
            expected = outputs[operand.tensor]
            rtol = 1e-2 if expected.dtype.itemsize < np.dtype(np.float32).itemsize else case.rtol
            # What is due is rounded too, by a unit in the last place of its greatest element.
            eps = ml_dtypes.finfo(expected.dtype).eps if "float" in expected.dtype.name else 0  # type: ignore[no-untyped-call] # ml_dtypes has no types
            greatest = np.abs(expected.astype(np.float64)).max(
                initial=0.0, where=np.isfinite(expected.astype(np.float64))
            )
            close = np.allclose(
                found[operand.name].astype(np.float64),
                expected.astype(np.float64),
                rtol=rtol,
                atol=max(1e-5, greatest * eps),
                equal_nan=True,
            )
            if not close:
                return f"{case.name}: {operand.tensor} differs"
    return ""


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_rule_has_a_summary_and_a_source(path: Path) -> None:
    for document in documents(path):
        assert str(document.get("summary", "")).strip(), f"{path.name}: no summary"
        assert str(document.get("source", "")).startswith("https://"), f"{path.name}: no source"


TEXTS = sorted(
    {
        (kind, name)
        for path in FILES
        for document in documents(path)
        for kind in operators(document)
        for name, spec in attributes(document, kind).items()
        if isinstance(spec, dict) and any("'" in str(default) for default in spec.values())
    }
)


def test_operators_have_texts() -> None:
    assert {("Pad", "mode"), ("BitShift", "direction"), ("LSTM", "direction")} <= set(TEXTS)


@pytest.mark.parametrize(("kind", "name"), TEXTS)
def test_a_text_that_no_rule_computes_is_refused(kind: str, name: str) -> None:
    (domain,) = {
        str(document.get("domain_name", ""))
        for path in FILES
        for document in documents(path)
        if kind in operators(document)
    }
    op = Op("node", kind, (), (), ((name, "no such thing"),), domain, 0)
    with pytest.raises(UserError) as caught:
        match(op, Graph("case", (), (), (), (op,), ()), book(), Wish())
    reasons = str(caught.value)
    assert f"case: node 'node' ({kind}): " in reasons
    assert f"the attribute '{name}' is 'no such thing', it can be '" in reasons


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_operator_computes_what_onnx_says(path: Path) -> None:
    faults, untested = [], []
    for document in documents(path):
        if document.get("domain_name", "") in {MICROSOFT, OURS}:
            continue
        for kind in operators(document):
            n_passed = 0
            for case in node_cases().get(kind, []):
                try:
                    fault = checked(case)
                except UserError:
                    continue
                faults += [fault] if fault else []
                n_passed += not fault
            if (
                not n_passed
                and kind not in COMPLETED | ELSEWHERE
                and "run_time_size" not in document
            ):
                untested.append(kind)
    assert not faults
    assert not untested
