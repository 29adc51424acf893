"""Weights by what parse did before: the bytes of parse itself, or nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.build.job import Job, Settings
from dlbuild.build.steps import parse as step
from dlbuild.build.steps.parse_again import run as again
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.initializers import Unreadable, sketch_of

Constants = Mapping[str, Array]


class Reader(Protocol):
    folder: Path
    book: RuleBook

    def save(self, text: str, constants: Constants | None = None) -> Path: ...


QDQ = """\
<ir_version: 8, opset_import: ["": 17]>
m (float[2, 6, 9, 9] x) => (float[2, 8] y) {
  xq = QuantizeLinear(x, xs, xz)
  xd = DequantizeLinear(xq, xs, xz)
  wd = DequantizeLinear <axis = 0> (w, ws, wz)
  bd = DequantizeLinear <axis = 0> (b, bs)
  c = Conv <kernel_shape = [3, 3]> (xd, wd, bd)
  r = Relu(c)
  rq = QuantizeLinear(r, rs, rz)
  rd = DequantizeLinear(rq, rs, rz)
  p = GlobalAveragePool(rd)
  f = Flatten(p)
  fq = QuantizeLinear(f, ps, pz)
  fd = DequantizeLinear(fq, ps, pz)
  vd = DequantizeLinear(v, vs, vz)
  m = MatMul(fd, vd)
  a = Add(m, k)
  l = Clip(a, low, high)
  yq = QuantizeLinear(l, ys, yz)
  y = DequantizeLinear(yq, ys, yz)
}
"""
FLOAT = """\
<ir_version: 8, opset_import: ["": 17]>
m (float[1, 4, 8, 8] x) => (float[1, 6, 17, 17] y) {
  c = Conv <kernel_shape = [3, 3], group = 2, pads = [1, 1, 1, 1]> (x, w, b)
  n = BatchNormalization (c, scale, shift, mean, variance)
  t = ConvTranspose <strides = [2, 2], group = 2> (n, u)
  y = BatchNormalization <epsilon = 0.001> (t, scale2, shift2, mean2, variance2)
}
"""


def qdq(seed: int) -> Constants:
    """Weights, a bias and scales as a calibration leaves them."""
    rng = np.random.default_rng(seed)

    def scales(*shape: int) -> npt.NDArray[np.float32]:
        return rng.uniform(0.01, 0.02, shape).astype(np.float32)

    def integers(*shape: int) -> Array:
        return rng.integers(-127, 128, shape).astype(np.int8)

    xs, ws = scales(1), scales(8)
    return {
        "xs": xs,
        "xz": np.array([3], np.int8),
        "w": integers(8, 6, 3, 3),
        "ws": ws,
        "wz": np.zeros(8, np.int8),
        "bs": xs * ws,
        "b": rng.integers(-9999, 9999, 8).astype(np.int32),
        "rs": scales(),
        "rz": np.array(-128, np.int8),
        "ps": scales(),
        "pz": np.array(-5, np.int8),
        "v": integers(8, 8),
        "vs": scales(),
        "vz": np.array(0, np.int8),
        "k": rng.normal(size=8).astype(np.float32),
        "low": np.array(-0.3 - seed / 100, np.float32),
        "high": np.array(0.25, np.float32),
        "ys": scales(),
        "yz": np.array(0, np.int8),
    }


def floats(seed: int) -> Constants:
    rng = np.random.default_rng(seed)

    def reals(*shape: int) -> Array:
        return rng.uniform(0.5, 2, shape).astype(np.float32)

    found = {"w": reals(6, 2, 3, 3), "b": reals(6), "u": reals(6, 3, 3, 3)}
    for suffix in ("", "2"):
        found |= {f"{name}{suffix}": reals(6) for name in ("scale", "shift", "mean", "variance")}
    return found


CASES = {"qdq": (QDQ, qdq), "float": (FLOAT, floats)}


class Steps:
    """Runs parse on a file, in full and by what it did before."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def job(self, text: str, constants: Constants) -> Job:
        path = self.reader.save(text, constants)
        return Job(Settings("m", source=path, folders=self.reader.book.folders), {})

    def both(self, text: str, before: Constants, now: Constants) -> bool:
        """Say whether the second model needs no parse, and compare with what parse makes."""
        made = step.run(self.job(text, before))
        job = self.job(text, now)
        found = again(job, made)
        if found is not None:
            assert dict(found) == dict(step.run(job))
        return found is not None


@pytest.fixture
def steps(reader: Reader) -> Steps:
    return Steps(reader)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(1, 6))
def test_other_numbers_need_no_parse(steps: Steps, name: str, seed: int) -> None:
    text, numbers = CASES[name]
    assert steps.both(text, numbers(0), numbers(seed))


def _without_narrow(found: dict[str, Array]) -> None:
    found["w"] = found["w"].copy()
    found["w"][0, 0, 0, 0] = -128


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_without_narrow, id="a weight is the least of its type"),
        pytest.param(lambda f: f.update(vz=np.array(1, np.int8)), id="a zero point is none"),
        pytest.param(lambda f: f.update(rz=np.array(-100, np.int8)), id="Relu limits something"),
        pytest.param(lambda f: f.update(low=np.array(-900, np.float32)), id="Clip limits nothing"),
        pytest.param(lambda f: f.update(ws=np.ones(1, np.float32)), id="one scale for all"),
        pytest.param(lambda f: f.update(b=f["b"].astype(np.int64)), id="another type"),
    ],
)
def test_what_may_change_structure_needs_parse(
    steps: Steps, change: Callable[[dict[str, Array]], None]
) -> None:
    now = dict(qdq(1))
    change(now)
    made = step.run(steps.job(QDQ, qdq(0)))
    assert again(steps.job(QDQ, now), made) is None


def test_equal_scales_that_part_need_parse(steps: Steps) -> None:
    text = """\
<ir_version: 8, opset_import: ["": 17]>
m (float[1, 4] x) => (float[4, 1] y) {
  q = QuantizeLinear(x, one, z)
  d = DequantizeLinear(q, one, z)
  t = Transpose <perm = [1, 0]> (d)
  p = QuantizeLinear(t, other, z)
  y = DequantizeLinear(p, other, z)
}
"""

    def scales(one: float, other: float) -> Constants:
        zero = np.array(0, np.int8)
        return {"one": np.array(one, np.float32), "other": np.array(other, np.float32), "z": zero}

    assert steps.both(text, scales(0.5, 0.5), scales(0.25, 0.25))
    assert not steps.both(text, scales(0.5, 0.5), scales(0.5, 0.25))
    assert not steps.both(text, scales(0.5, 0.25), scales(0.5, 0.5))


def test_contents_that_are_structure_need_parse(steps: Steps) -> None:
    text = """\
<ir_version: 8, opset_import: ["": 17]>
m (float[4, 6] x) => (float[a, b] y) {
  r = Reshape(x, shape)
  y = Mul(r, by)
}
"""

    def constants(shape: list[int], by: float) -> Constants:
        return {"shape": np.array(shape, np.int64), "by": np.full((1,), by, np.float32)}

    before = constants([8, 3], 1)
    assert steps.both(text, before, constants([8, 3], 2))
    assert not steps.both(text, before, constants([3, 8], 1))


def test_numbers_in_other_forms(steps: Steps) -> None:
    """Lists of reals may change, whole numbers of varying length are structure."""

    def job(reals: list[float], integers: list[int]) -> Job:
        graph = helper.make_graph(
            [
                helper.make_node("Add", ["x", "f"], ["a"]),
                helper.make_node("Add", ["i", "j"], ["b"]),
            ],
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
                helper.make_tensor_value_info("j", TensorProto.INT32, [2]),
            ],
            [
                helper.make_tensor_value_info("a", TensorProto.FLOAT, [2]),
                helper.make_tensor_value_info("b", TensorProto.INT32, [2]),
            ],
            [
                helper.make_tensor("f", TensorProto.FLOAT, [2], reals),
                helper.make_tensor("i", TensorProto.INT32, [2], integers),
            ],
        )
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        path = steps.reader.folder / "m.onnx"
        path.write_bytes(model.SerializeToString())
        return Job(Settings("m", source=path, folders=steps.reader.book.folders), {})

    made = step.run(job([1, 2], [3, 4]))
    for now in (job([5, 6], [3, 4]), job([1, 2], [3, 4])):
        found = again(now, made)
        assert found is not None
    found = again(job([5, 6], [3, 4]), made)
    assert found == dict(step.run(job([5, 6], [3, 4])))
    assert again(job([1, 2], [3, 5]), made) is None


def test_who_made_a_model_is_no_structure(steps: Steps) -> None:
    made = step.run(steps.job(FLOAT, floats(0)))
    job = steps.job(FLOAT, floats(1))
    model = onnx.load(job.settings.source)
    model.producer_name, model.producer_version, model.doc_string = "trainer", "2", "epoch 7"
    job.settings.source.write_bytes(model.SerializeToString())
    assert again(job, made) == dict(step.run(job))


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_damaged_model_needs_parse(steps: Steps, cut: int) -> None:
    made = step.run(steps.job(FLOAT, floats(0)))
    job = steps.job(FLOAT, floats(1))
    content = job.settings.source.read_bytes()
    job.settings.source.write_bytes(content[:-cut])
    assert again(job, made) is None


def test_numbers_in_other_files_need_parse(steps: Steps) -> None:
    job = steps.job(FLOAT, floats(0))
    source = job.settings.source
    model = onnx.load(source)
    onnx.save(model, source, save_as_external_data=True, size_threshold=0, location="w.bin")
    made = step.run(job)
    assert made["derivation"] == b""
    assert again(job, made) is None
    with pytest.raises(Unreadable):
        sketch_of(source.read_bytes())


def test_the_sketch_sees_every_bit_that_is_not_a_number(steps: Steps) -> None:
    """Flipping any bit of a file changes its structure, a number, or makes it unreadable."""
    text = """\
<ir_version: 8, opset_import: ["": 17]>
m (float[2] x) => (float[2] y) { y = Add(x, c) }
"""
    source = steps.reader.save(text, {"c": np.array([1, 2], np.float32)})
    content = source.read_bytes()
    whole = sketch_of(content)
    (name,) = whole.initializers
    raw = numpy_helper.from_array(whole.initializers[name].array, name).raw_data
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            found = sketch_of(bytes(flipped))
        except Unreadable:
            continue
        same = found.structure == whole.structure
        assert not same or bytes(found.initializers[name].content) != raw
