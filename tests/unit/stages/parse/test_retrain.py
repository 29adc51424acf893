"""What `bench/retrain.py` changes of operators with quantised operands, and what it leaves."""

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper

from dlbuild.ir.codec import encode
from dlbuild.stages.parse import Parsed

Array = npt.NDArray[np.generic]
BENCH = Path(__file__).parents[4] / "bench" / "retrain.py"
RETRAIN = runpy.run_path(str(BENCH))

CONVOLUTION = """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
m (uint8[1,2,4,4] x) => (uint8[1,3,4,4] z) {
    y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz, b)
    z = com.microsoft.QLinearAdd (y, ys, yz, c, cs, cz, zs, zz)
}"""
GEMM = """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
m (uint8[2,4] x) => (uint8[2,3] y) {
    y = com.microsoft.QGemm (x, xs, xz, w, ws, wz, b, ys, yz)
}"""
PRODUCT = """<ir_version: 8, opset_import: ["" : 13]>
m (uint8[2,4] x) => (int32[2,3] y) { y = MatMulInteger (x, w, xz, wz) }"""
DYNAMIC = """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
m (float[2,4] x) => (float[2,3] y) {
    y = com.microsoft.DynamicQuantizeMatMul (x, w, ws, wz)
}"""
JOINED = """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
m (uint8[2,4] x) => (uint8[2,7] y) {
    y = com.microsoft.QLinearConcat <axis = 1> (ys, yz, x, xs, xz, c, cs, cz)
}"""


class Reader(Protocol):
    folder: Path

    def save(
        self, text: str, constants: Mapping[str, Array] | None = None, name: str = "m.onnx"
    ) -> Path: ...

    def parse(self, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Parsed: ...


def grid(name: str, zero: int, step: float, count: int = 0) -> dict[str, Array]:
    """Return a scale and a uint8 zero point; with a count one of each for as many channels."""
    if count:
        steps = np.linspace(step, 2 * step, count, dtype=np.float32)
        return {f"{name}s": steps, f"{name}z": np.full(count, zero, np.int8)}
    return {f"{name}s": np.array(step, np.float32), f"{name}z": np.array(zero, np.uint8)}


def weights(*shape: int) -> dict[str, Array]:
    """Return weights of int8 and a bias, with one scale and a zero for each of the 3 outputs."""
    numbers = np.random.default_rng(3).integers(-90, 90, shape).astype(np.int8)
    return {"w": numbers, "b": np.array([300, -200, 100], np.int32), **grid("w", 0, 0.01, 3)}


def table(*shape: int) -> dict[str, Array]:
    """Return constants of uint8 with a scale and a zero point."""
    return {"c": np.random.default_rng(4).integers(9, 200, shape).astype(np.uint8)} | grid(
        "c", 7, 0.03
    )


X, Y, Z = grid("x", 128, 0.05), grid("y", 120, 0.1), grid("z", 0, 0.2)
PLAIN = {key: array for key, array in weights(4, 3).items() if key in ("w", "wz")}
CASES = {
    "convolution": (CONVOLUTION, X | Y | Z | weights(3, 2, 1, 1) | table(1, 3, 4, 4)),
    "gemm": (GEMM, X | Y | weights(4, 3)),
    "product": (PRODUCT, PLAIN | {"xz": X["xz"]}),
    "dynamic": (DYNAMIC, PLAIN | {"ws": grid("w", 0, 0.01, 3)["ws"]}),
    "joined": (JOINED, X | Y | table(2, 3)),
}


def read(path: Path) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def retrain(reader: Reader, path: Path, *, scales: bool) -> Path:
    made = RETRAIN["retrained"](onnx.load(path), 1, scales=scales)
    again = reader.folder / "again.onnx"
    again.write_bytes(made.SerializeToString())
    return again


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_other_numbers_have_the_same_structure(reader: Reader, case: str, *, scales: bool) -> None:
    path = reader.save(*CASES[case])
    again = retrain(reader, path, scales=scales)

    assert encode(reader.parse(again).graph) == encode(reader.parse(path).graph)


@pytest.mark.parametrize("case", CASES)
def test_other_weights_leave_scales_and_zero_points(reader: Reader, case: str) -> None:
    path = reader.save(*CASES[case])
    before, after = read(path), read(retrain(reader, path, scales=False))

    changed = {name for name in before if before[name].tobytes() != after[name].tobytes()}
    assert changed == {"w", "b", "c"} & before.keys()
    model = onnx.load(path)
    assert RETRAIN["has_weights"](model, frozenset())
    assert not RETRAIN["has_weights"](model, frozenset(changed))


@pytest.mark.parametrize("case", ["convolution", "gemm", "dynamic", "joined"])
def test_a_new_calibration_changes_scales_and_keeps_zeros(reader: Reader, case: str) -> None:
    path = reader.save(*CASES[case])
    before, after = read(path), read(retrain(reader, path, scales=True))

    for name in before:
        if name.endswith("s"):
            assert np.less(after[name].astype(float), before[name].astype(float)).all(), name
        if name.endswith("z"):
            assert ((after[name] == 0) == (before[name] == 0)).all(), name
            assert before[name].any() == (after[name] != before[name]).any(), name


@pytest.mark.parametrize("case", ["convolution", "gemm", "product"])
def test_a_zero_point_that_is_no_longer_zero_is_another_structure(
    reader: Reader, case: str
) -> None:
    text, constants = CASES[case]
    moved = constants | {"wz": np.array([0, 1, 0], np.int8)}
    one, other = reader.save(text, constants), reader.save(text, moved, "moved.onnx")

    assert encode(reader.parse(one).graph) != encode(reader.parse(other).graph)


def test_zeros_of_an_operator_that_it_does_not_know_stay() -> None:
    is_weight = RETRAIN["is_weight"]

    assert not is_weight(np.zeros(3, np.int8))
    assert not is_weight(np.zeros(3, np.uint8))
    assert is_weight(np.array([0, 1, 0], np.int8))
    assert is_weight(np.zeros(3, np.int32))  # a bias
