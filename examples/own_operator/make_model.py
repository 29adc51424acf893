"""Write squash.onnx, which uses the operator com.example.Squash, and samples of what it computes.

Run: python make_model.py
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
GAIN, LIMIT = 1.5, 0.5


def main() -> None:
    """Write the model and eight samples with expected outputs."""
    rng = np.random.default_rng(3)
    first = (rng.standard_normal((16, 6)) / 2).astype(np.float32)
    second = (rng.standard_normal((4, 16)) / 4).astype(np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "first"], ["hidden"], name="widen", transB=1),
        helper.make_node(
            "Squash",
            ["hidden"],
            ["squashed"],
            name="squash",
            domain="com.example",
            gain=GAIN,
            limit=LIMIT,
        ),
        helper.make_node("Gemm", ["squashed", "second"], ["y"], name="narrow", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "squash",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
        # Nothing but the model itself can say what a custom operator returns.
        value_info=[helper.make_tensor_value_info("squashed", TensorProto.FLOAT, [1, 16])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (HERE / "squash.onnx").write_bytes(model.SerializeToString())

    x = rng.standard_normal((8, 1, 6)).astype(np.float32)
    hidden = x @ first.T
    squashed = np.float32(GAIN) * hidden / (np.float32(LIMIT) + np.abs(hidden))
    np.savez(HERE / "squash_samples.npz", x=x, y=squashed @ second.T)


if __name__ == "__main__":
    main()
