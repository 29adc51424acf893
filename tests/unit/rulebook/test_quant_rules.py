"""Numbers that a formula of ONNX alone does not give."""

import numpy as np

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import load_rules
from dlbuild.rulebook.match import match


def test_what_is_zero_throughout_is_quantised_without_a_division_by_zero() -> None:
    tensors = (
        Tensor("x", "float32", (4,)),
        Tensor("y", "uint8", (4,)),
        Tensor("s", "float32", ()),
        Tensor("z", "uint8", ()),
    )
    op = Op("op", "DynamicQuantizeLinear", ("x",), ("y", "s", "z"), (), "", 17)
    graph = Graph("net", ("x",), ("y", "s", "z"), tensors, (op,), ())

    with np.errstate(all="raise"):
        found = interpret(
            match(op, graph, load_rules([builtin_folder()])), {"x": np.zeros(4, np.float32)}
        )

    assert {name: array.tolist() for name, array in found.items()} == {
        "y": [0, 0, 0, 0],
        "s": 1.0,
        "z": 0,
    }
