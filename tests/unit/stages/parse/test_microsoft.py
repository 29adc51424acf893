"""Operators of com.microsoft on reals, against ONNX Runtime."""

from typing import Protocol

import numpy as np
import pytest

from dlbuild.ir.weights import Array
from dlbuild.stages.parse import Parsed

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'


class Reader(Protocol):
    def require_equal(
        self, text: str, constants: None, feeds: dict[str, Array], *, within: float = 0.0
    ) -> Parsed: ...


CASES = [
    (["float[2,9]"], "float[2,9] y = QuickGelu <alpha = 1.5> (a)"),
    (["float[2,3,5]", "float[5]"], "float[2,3,5] y = BiasGelu (a, b)"),
    (["float[4,6]", "float[6]"], "float[4,6] y = FastGelu (a, b)"),
    (["float[3,4]", "float[5,4]"], 'float[3,5] y = CDist <metric = "euclidean"> (a, b)'),
    (
        ["float[2,3,8]", "float[8]"],
        "float[2,3,8] y = SimplifiedLayerNormalization <epsilon = 0.01> (a, b)",
    ),
    (
        ["float[2,3,4,8]", "int64[2,4]", "float[16,4]", "float[16,4]"],
        "float[2,3,4,8] y = RotaryEmbedding (a, b, c, d)",
    ),
    (
        ["float[2,3,8]", "float[2,3,8]", "float[8]", "float[8]"],
        "float[2,3,8] y = SkipLayerNormalization (a, b, c, d)",
    ),
    (
        ["float[2,3,8]", "float[2,3,8]", "float[8]"],
        "float[2,3,8] y = SkipSimplifiedLayerNormalization (a, b, c)",
    ),
    (
        ["uint8[3,4]", "uint8[4,5]", "float[1]", "float[5]", "uint8[1]", "uint8[5]", "float[5]"],
        "float[3,5] y = MatMulIntegerToFloat (a, b, c, d, e, f, g)",
    ),
    (
        ["float[3,40]", "uint8[5,2,16]", "float[10]"],
        "float[3,5] y = MatMulNBits <K = 40, N = 5, bits = 4, block_size = 32> (a, b, c)",
    ),
]


@pytest.mark.parametrize(("shapes", "call"), CASES)
def test_an_operator_of_microsoft_gives_what_its_runtime_gives(
    reader: Reader, shapes: list[str], call: str
) -> None:
    rng = np.random.default_rng(7)
    feeds: dict[str, Array] = {}
    for name, shape in zip("abcdefg", shapes, strict=False):
        kind, _, dims = shape.rstrip("]").partition("[")
        extents = [int(extent) for extent in dims.split(",") if extent]
        if kind == "float":
            feeds[name] = rng.standard_normal(extents).astype(np.float32)
        else:
            feeds[name] = rng.integers(0, 16, extents).astype(kind)
    given = ", ".join(f"{s} {n}" for n, s in zip(feeds, shapes, strict=True))
    results, _, call = call.partition(" = ")
    kind = call if call.startswith("Simplified") else f"com.microsoft.{call}"
    text = f"{HEAD} g ({given}) => ({results}) {{ {results.split()[-1]} = {kind} }}"
    reader.require_equal(text, None, feeds, within=1e-5)
