"""The C of every rule on onnx's own node cases, against numpy's answer and onnx's."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from dlbuild.base.errors import UserError
from dlbuild.emit.ctypes import STORAGE
from dlbuild.emit.environment import environment
from dlbuild.emit.kernel import KernelText, render_kernel
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.weights import Array, dtype_name
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.interpret import interpret, make
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import match
from tests.node_graph import graph_of

ROOT = Path(__file__).parents[2]
ENVIRONMENT = environment([ROOT / "templates"])
LEAST_CASES = 650

Orders = Mapping[str, tuple[int, ...]]
Printed = tuple[KernelText, Instance, Mapping[str, Array], Orders]
Calls = Callable[[Sequence[Printed]], list[dict[str, Array]]]
Arrays = dict[str, Array]


@cache
def book() -> RuleBook:
    return load_rules([ROOT])


def node_cases() -> Iterator[tuple[str, onnx.ModelProto, Arrays, Arrays]]:
    """Yield the cases of one node with tensors only: name, model, inputs, outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests  # noqa: PLC0415 - makes all cases

        loaded = load_model_tests(kind="node")
    for test in loaded:
        if test.model is None or not test.data_sets or len(test.model.graph.node) != 1:
            continue
        given, due = test.data_sets[0]
        arrays = [a for a in (*given, *due) if isinstance(a, np.ndarray | np.generic)]
        is_plain = len(arrays) == len(given) + len(due)
        if is_plain and all(dtype_name(np.asarray(a)) in STORAGE for a in arrays):
            inputs = [entry.name for entry in test.model.graph.input]
            outputs = [entry.name for entry in test.model.graph.output]
            yield (
                test.name,
                test.model,
                dict(zip(inputs, map(np.asarray, given), strict=True)),
                dict(zip(outputs, map(np.asarray, due), strict=True)),
            )


ENCODED = {name for name, d in DTYPES.items() if d.bits < 8 or (d.kind == "float" and d.bits < 32)}
"""Element types that ctypes cannot pass; `tests/run/test_conformance.py` has their cases."""


def printed(name: str, graph: Graph, arrays: Arrays) -> Printed | None:
    """Return the case's kernel in the layout that its rule prefers, None if there is none.

    A kernel with a template of its own has no steps for numpy to carry out.
    """
    try:
        instance = match(graph.ops[0], graph, book())
    except UserError:
        return None
    if not instance.nests:
        return None
    inputs = [o for o in instance.operands if o.role == "input"]
    held = {o.name: arrays[o.tensor] for o in inputs}
    orders = {o.name: o.order for o in instance.operands if o.order}
    text = render_kernel(
        instance,
        name,
        orders,
        restrict=frozenset(),
        constants=frozenset(o.name for o in inputs if o.tensor in graph.constants),
        environment=ENVIRONMENT,
    )
    return text, instance, {**held, **make(instance, held)}, orders


def is_close(found: Array, expected: Array) -> bool:
    if expected.dtype.kind != "f":
        return np.array_equal(found, expected)
    # What is due is rounded too, by a unit in the last place of its greatest element.
    greatest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    unit = 2.0 ** (-23 if expected.dtype == np.float32 else -52)
    atol = max(1e-5, unit * float(greatest))
    return np.allclose(
        found.astype(np.float64), expected.astype(np.float64), 1e-3, atol, equal_nan=True
    )


def test_every_case_of_onnx_gives_in_c_what_it_gives_in_numpy_and_onnx(call_in_c: Calls) -> None:
    names, kernels, due = [], [], []
    for number, (name, model, inputs, outputs) in enumerate(node_cases()):
        node = model.graph.node[0]
        is_plain = not any(a.HasField("t") for a in node.attribute) and not any(
            dtype_name(a) in ENCODED for a in (*inputs.values(), *outputs.values())
        )
        if is_plain and book().rules_for(node.domain, node.op_type):
            graph = graph_of(model, inputs, outputs, book())
            kernel = printed(f"case{number}", graph, inputs)
            if kernel is not None:
                names.append(name)
                kernels.append(kernel)
                due.append(outputs)

    results = call_in_c(kernels)

    faults = []
    for name, (_, instance, held, _), found, outputs in zip(
        names, kernels, results, due, strict=True
    ):
        expected = interpret(instance, held)
        for operand in instance.operands:
            if operand.role == "output":
                got = found[operand.name]
                if not is_close(got, expected[operand.name]):
                    faults.append(f"{name}: {operand.name} is not numpy's")
                if not is_close(got.reshape(-1), outputs[operand.tensor].reshape(-1)):
                    faults.append(f"{name}: {operand.name} is not onnx's")
    assert not faults
    assert len(names) > LEAST_CASES
