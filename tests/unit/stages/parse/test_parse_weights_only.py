"""A retrained model has the same structure, to the byte; only the numbers differ."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper

from dlbuild.ir.codec import encode
from dlbuild.ir.weights import encode as encode_weights
from dlbuild.stages.parse import Parsed

CORPUS = os.environ.get("DLBUILD_CORPUS", "")
NAMES = ("ad_toycar", "ic_resnet8", "kws_dscnn", "vww_mobilenetv1")
MODELS = [f"mlperf_{n}_{k}" for n in NAMES for k in ("f32", "int8")]
MODELS += ["mlperf_sww_int8", "mlperf_ic_resnet_large_int8"]
OPERATORS = {
    "mlperf_ad_toycar_f32": 19,
    "mlperf_ad_toycar_int8": 10,
    "mlperf_ic_resnet8_f32": 25,
    "mlperf_ic_resnet8_int8": 18,
    "mlperf_ic_resnet_large_int8": 18,
    "mlperf_kws_dscnn_f32": 24,
    "mlperf_kws_dscnn_int8": 15,
    "mlperf_sww_int8": 13,
    "mlperf_vww_mobilenetv1_f32": 60,
    "mlperf_vww_mobilenetv1_int8": 33,
}
needs_corpus = pytest.mark.skipif(not CORPUS, reason="DLBUILD_CORPUS is not set")


class Reader(Protocol):
    folder: Path

    def parse(self, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Parsed: ...


def retrained(path: Path, seed: int, folder: Path) -> Path:
    """Write the model with other weights: every number that is no extent, axis or zero.

    Equal tensors stay equal: which scales are equal is part of the structure.
    """
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        rng = np.random.default_rng((seed, crc32(array.tobytes())))
        if array.dtype != np.int64 and array.any():
            tensor.CopyFrom(numpy_helper.from_array(other(array, rng), tensor.name))
    changed = folder / f"{seed}.onnx"
    changed.write_bytes(model.SerializeToString())
    return changed


def other(array: npt.NDArray[np.generic], rng: np.random.Generator) -> npt.NDArray[np.generic]:
    """Return other numbers of the same kind: reals scaled, integers drawn.

    A zero point at the end of its range stays: what it stands for is never negative. Scales become
    smaller, so that what was limited at the other end still is.
    """
    if array.dtype == np.int8 and array.size == 1 and array.min() == -128:
        return array
    if array.dtype.kind == "f":
        factor = rng.uniform(0.5, 1.0, array.shape)
        return np.multiply(array.astype(np.float64), factor).astype(array.dtype)
    limit = 127 if array.dtype.itemsize == 1 else 5000
    return rng.integers(1, limit, array.shape).astype(array.dtype)


@needs_corpus
@pytest.mark.parametrize("name", MODELS)
def test_new_weights_and_scales_give_the_same_structure(reader: Reader, name: str) -> None:
    path = Path(CORPUS, "models", name, "model.onnx")
    before = reader.parse(path)
    after = reader.parse(retrained(path, 1, reader.folder))
    assert encode(after.graph) == encode(before.graph)
    assert encode_weights(after.weights) != encode_weights(before.weights)


@needs_corpus
@pytest.mark.parametrize("name", MODELS)
def test_the_structure_is_the_one_drawn_by_hand(reader: Reader, name: str) -> None:
    graph = reader.parse(Path(CORPUS, "models", name, "model.onnx")).graph
    assert len(graph.ops) == OPERATORS[name]
    kinds = {graph.tensor[t].dtype for op in graph.ops for t in op.outputs}
    assert kinds == ({"int8"} if "int8" in name else {"float32"})
    assert len(graph.quantized) == (2 if "int8" in name else 0)


@needs_corpus
def test_the_same_file_gives_the_same_bytes(reader: Reader) -> None:
    path = Path(CORPUS, "models", "mlperf_kws_dscnn_int8", "model.onnx")
    one, other_run = reader.parse(path), reader.parse(path)
    assert encode(one.graph) == encode(other_run.graph)
    assert encode_weights(one.weights) == encode_weights(other_run.weights)
