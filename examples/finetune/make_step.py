"""One training step of the digits network's last layers, as a single ONNX graph.

Forward pass, loss, gradients and the optimiser are standard operators (opset 17):

    operator      gradient
    Gemm          by its weight Gemm(transA), by its bias ReduceSum, by its input MatMul
    Relu          multiply by whether the result is above 0
    Conv          by its weight Conv of the transposed input with the transposed slope,
                  by its bias ReduceSum
    cross-entropy (softmax - one-hot) / N

conv1 and conv2 are constants. The parameters of conv3 and fc are inputs whose defaults are those of
the trained network,
and outputs `<name>.next`. Needs: pip install onnx. Run: python make_step.py
Writes finetune.onnx from ../digits/digits.onnx, and with --data digits.bin from scikit-learn.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

HERE = Path(__file__).parent
DIGITS = HERE.parent / "digits" / "digits.onnx"
N_SAMPLES = 16
N_CLASSES = 10
FROZEN = ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias")
TRAINED = ("conv3.weight", "conv3.bias", "fc.weight", "fc.bias")
UNSEEN = 1437  # where the images begin that the network was not trained with


class Writer:
    """Collects nodes and constants; every result is named by its node."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def node(self, kind: str, name: str, inputs: Sequence[str], **attributes: object) -> str:
        """Add a node and return the name of its output."""
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, content: object, dtype: type) -> str:
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(np.asarray(content, dtype), name))
        return name


def forward(w: Writer) -> None:
    """Write the network; `logits` is what goes into its softmax."""
    w.node("Conv", "conv1", ["image", "conv1.weight", "conv1.bias"], pads=[1, 1, 1, 1])
    w.node("Relu", "active1", ["conv1"])
    w.node("Conv", "conv2", ["active1", "conv2.weight", "conv2.bias"], pads=[1, 1, 1, 1])
    w.node("Relu", "active2", ["conv2"])
    w.node("MaxPool", "features", ["active2"], kernel_shape=[2, 2], strides=[2, 2])
    w.node("Conv", "conv3", ["features", "conv3.weight", "conv3.bias"])
    w.node("Relu", "active3", ["conv3"])
    w.node("Flatten", "flat", ["active3"], axis=1)
    w.node("Gemm", "logits", ["flat", "fc.weight", "fc.bias"], transB=1)
    w.node("Softmax", "probabilities", ["logits"], axis=1)


def loss(w: Writer, n_samples: int) -> None:
    """Write the mean cross-entropy and its slope by the logits.

    Both hold the number of all samples as a constant, so that they do not change when the batch is
    divided.
    """
    depth = w.constant("classes", N_CLASSES, np.int64)
    levels = w.constant("levels", [0, 1], np.float32)
    share = w.constant("share", 1 / n_samples, np.float32)
    w.node("OneHot", "target", ["labels", depth, levels], axis=-1)
    w.node("LogSoftmax", "log_probabilities", ["logits"], axis=1)
    w.node("Mul", "log_of_target", ["log_probabilities", "target"])
    w.node("ReduceSum", "log_likelihood", ["log_of_target"], keepdims=0)
    w.node("Neg", "surprise", ["log_likelihood"])
    w.node("Mul", "loss", ["surprise", share])
    w.node("Sub", "excess", ["probabilities", "target"])
    w.node("Mul", "logits.slope", ["excess", share])


def backward(w: Writer, n_samples: int) -> None:
    """Write the slope of the loss by each parameter: `<name>.slope`."""
    samples = w.constant("samples_axis", [0], np.int64)
    places = w.constant("place_axes", [0, 2, 3], np.int64)
    w.node("Gemm", "fc.weight.slope", ["logits.slope", "flat"], transA=1)
    w.node("ReduceSum", "fc.bias.slope", ["logits.slope", samples], keepdims=0)
    w.node("MatMul", "flat.slope", ["logits.slope", "fc.weight"])
    shape = w.constant("active3.shape", [n_samples, 32, 2, 2], np.int64)
    w.node("Reshape", "active3.slope", ["flat.slope", shape])
    zero = w.constant("zero", 0, np.float32)
    w.node("Greater", "is_active3", ["active3", zero])
    w.node("Cast", "gate3", ["is_active3"], to=TensorProto.FLOAT)
    w.node("Mul", "conv3.slope", ["active3.slope", "gate3"])
    # A weight's slope sums over samples and places: a convolution whose channels are the samples.
    w.node("Transpose", "features.by_channel", ["features"], perm=[1, 0, 2, 3])
    w.node("Transpose", "conv3.slope.by_channel", ["conv3.slope"], perm=[1, 0, 2, 3])
    w.node("Conv", "conv3.sums", ["features.by_channel", "conv3.slope.by_channel"])
    w.node("Transpose", "conv3.weight.slope", ["conv3.sums"], perm=[1, 0, 2, 3])
    w.node("ReduceSum", "conv3.bias.slope", ["conv3.slope", places], keepdims=0)


def descend(w: Writer) -> None:
    """Write the optimiser: stochastic gradient descent."""
    for name in TRAINED:
        w.node("Mul", f"{name}.change", [f"{name}.slope", "rate"])
        w.node("Sub", f"{name}.next", [name, f"{name}.change"])


def step(n_samples: int) -> ModelProto:
    """Return the training step on batches of `n_samples`."""
    digits = {t.name: t for t in onnx.load(DIGITS).graph.initializer}
    w = Writer()
    forward(w)
    loss(w, n_samples)
    backward(w, n_samples)
    descend(w)

    def info(name: str, kind: int, shape: Sequence[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    parameters = [(name, TensorProto.FLOAT, list(digits[name].dims)) for name in TRAINED]
    graph = helper.make_graph(
        w.nodes,
        "finetune",
        [
            info("image", TensorProto.FLOAT, [n_samples, 1, 8, 8]),
            info("labels", TensorProto.INT64, [n_samples]),
            info("rate", TensorProto.FLOAT, []),
            *(info(*parameter) for parameter in parameters),
        ],
        [
            info("loss", TensorProto.FLOAT, []),
            info("probabilities", TensorProto.FLOAT, [n_samples, N_CLASSES]),
            *(info(f"{name}.next", kind, shape) for name, kind, shape in parameters),
        ],
        [*(digits[name] for name in (*FROZEN, *TRAINED)), *w.constants],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="dlbuild examples/finetune",
    )
    checker.check_model(model, full_check=True)
    return model


def turned_digits() -> bytes:
    """Return the images that the network has not seen, turned by a quarter as the sensor is.

    For each 64 bytes, grey values from 0 to 16, row by row; then a byte for each label.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415 - for the data alone

    digits = load_digits()
    images = np.rot90(digits.images[UNSEEN:], 1, (1, 2)).astype(np.uint8)
    return images.tobytes() + digits.target[UNSEEN:].astype(np.uint8).tobytes()


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Write the training step.")
    parser.add_argument("--data", action="store_true", help="write digits.bin too")
    if parser.parse_args().data:
        (HERE / "digits.bin").write_bytes(turned_digits())
    (HERE / "finetune.onnx").write_bytes(step(N_SAMPLES).SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
