"""The annotated model."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from dlbuild.ir.costs import Costs, KernelCost
from dlbuild.ir.graph import Graph, Op, Tensor, Value
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.schedule import Schedule, Step
from dlbuild.ir.weights import Array
from dlbuild.stages.annotate import annotate, shares, to_onnx

GRAPH = Graph(
    "m",
    ("x",),
    ("y",),
    tuple(
        Tensor(name, dtype, shape)
        for name, dtype, shape in (
            ("x", "float32", (1, 4)),
            ("w", "float32", (4, 3)),
            ("a", "float32", (1, 3)),
            ("b", "float32", (1, 3)),
            ("s", "int64", (2,)),
            ("y", "float32", (3, 1)),
        )
    ),
    (
        Op("product", "MatMul", ("x", "w"), ("a",), (), "", 13),
        Op("limit", "LeakyRelu", ("a",), ("b",), (("alpha", 0.5),), "", 16),
        Op("turn", "Reshape", ("b", "s"), ("y",), (), "", 13),
    ),
    ("s", "w"),
    (Value("s", (2,), (3, 1)),),
)


def kernel(name: str, anchor: str, epilogue: tuple[str, ...], cycles: int) -> Kernel:
    return Kernel(name, anchor, (), epilogue, "r.yaml#R", "", (), (), (), 12, 24, 64, 12, cycles)


PROFILE = Profile(
    (kernel("matmul1", "product", ("limit",), 30), kernel("reshape2", "turn", (), 10))
)
COSTS = Costs(
    "ns", (KernelCost("matmul1", 200, "a", is_measured=True), KernelCost("reshape2", 100))
)
SCHEDULE = Schedule((Step(0, "matmul1"), Step(1, "reshape2")), (), ())


def annotated() -> onnx.ModelProto:
    return onnx.load_model_from_string(
        annotate(GRAPH, PROFILE, COSTS, SCHEDULE, weights_file="m.weights")
    )


def test_the_anchor_bears_the_costs_and_the_epilogue_the_kernels_name() -> None:
    notes = [{p.key: p.value for p in node.metadata_props} for node in annotated().graph.node]
    assert notes[0] == {
        "kernel": "matmul1",
        "rule": "r.yaml#R",
        "step": "0",
        "share": "66.67 %",
        "time": "200",
        "time_from": "measurement",
        "cycles": "30",
        "macs": "12",
        "flops": "24",
        "bytes": "76",
        "bytes_read": "64",
        "bytes_written": "12",
    }
    assert notes[1] == {"kernel": "matmul1"}


def test_times_and_work_of_the_nodes_add_up_to_those_of_the_model() -> None:
    model = annotated()
    notes = [{p.key: p.value for p in node.metadata_props} for node in model.graph.node]
    whole = {p.key: p.value for p in model.metadata_props}
    assert whole["time_unit"] == "ns"
    for key in ("time", "macs", "flops"):
        assert sum(int(note.get(key, "0")) for note in notes) == int(whole[key])


@pytest.mark.parametrize("times", [[1, 1, 1], [0, 7, 0], [5] * 7, [1, 999_999]])
def test_shares_add_up_to_the_whole(times: list[int]) -> None:
    assert sum(shares(times)) == 10_000


def test_nothing_has_no_shares() -> None:
    assert shares([0, 0]) == [0, 0]


def test_weights_are_referred_to_and_structure_is_written() -> None:
    structure, weights = annotated().graph.initializer
    assert list(structure.int64_data or onnx.numpy_helper.to_array(structure)) == [3, 1]
    assert weights.data_location == onnx.TensorProto.EXTERNAL
    assert [(e.key, e.value) for e in weights.external_data] == [("location", "m.weights")]
    assert not weights.raw_data


def test_the_operator_set_is_the_newest_that_a_node_has_the_form_of() -> None:
    assert [(o.domain, o.version) for o in annotated().opset_import] == [("", 16)]


def test_the_model_is_valid_onnx(tmp_path: Path) -> None:
    (tmp_path / "m.weights").write_bytes(bytes(48))
    path = tmp_path / "m.profile.onnx"
    path.write_bytes(annotated().SerializeToString())
    onnx.checker.check_model(str(path), full_check=True)


def test_the_bytes_are_the_same_each_time() -> None:
    calls = [annotate(GRAPH, PROFILE, COSTS, SCHEDULE, weights_file="m.weights") for _ in range(2)]
    assert calls[0] == calls[1]


def test_a_graph_with_its_weights_is_a_model_that_runs() -> None:
    weights: dict[str, Array] = {"w": np.ones((4, 3), np.float32)}
    weights["s"] = np.array([3, 1], np.int64)
    feeds = {"x": np.array([[1, -2, 3, -4]], np.float32)}
    (found,) = ReferenceEvaluator(to_onnx(GRAPH, weights)).run(None, feeds)
    assert np.asarray(found).tolist() == [[-1], [-1], [-1]]
