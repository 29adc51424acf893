"""The network as ONNX models: float32 as an exporter writes it, and int8 with Q/DQ pairs."""

from collections.abc import Sequence

import network
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper, numpy_helper
from quantize import Layer, Quantized, Scale

OPSET = 17
IR_VERSION = 8
IMAGE = "image"
OUTPUT = "probabilities"


class Writer:
    """Collects nodes and initialisers in the order in which they are written."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []

    def node(self, kind: str, name: str, inputs: Sequence[str], **attributes: object) -> str:
        """Add a node with one output and return the output's name."""
        output = f"/{name}/{kind}_output_0"
        made = helper.make_node(kind, list(inputs), [output], name=f"/{name}/{kind}", **attributes)
        self.nodes.append(made)
        return output

    def tensor(self, name: str, content: NDArray[np.generic]) -> str:
        """Add an initialiser and return its name."""
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(content), name))
        return name

    def scale(self, name: str, scale: Scale) -> tuple[str, str]:
        """Add a scale and a zero point."""
        step = self.tensor(f"{name}_scale", np.asarray(scale.step))
        return step, self.tensor(f"{name}_zero_point", np.asarray(scale.zero_point))

    def finish(self, inputs: ValueInfoProto, outputs: ValueInfoProto, output: str) -> ModelProto:
        """Return the checked model; the tensor `output` gets the name of the model's output."""
        last = self.nodes[-1]
        assert list(last.output) == [output]
        last.output[0] = OUTPUT
        graph = helper.make_graph(self.nodes, "digits", [inputs], [outputs], self.tensors)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="dlbuild examples/digits",
        )
        checker.check_model(model, full_check=True)
        return model


def _interface(kind: int) -> tuple[ValueInfoProto, ValueInfoProto]:
    return (
        helper.make_tensor_value_info(IMAGE, kind, [1, 1, 8, 8]),
        helper.make_tensor_value_info(OUTPUT, kind, [1, network.N_CLASSES]),
    )


def _window(layer: network.Convolution) -> dict[str, list[int]]:
    return {"kernel_shape": [3, 3], "pads": [layer.pad] * 4, "strides": [1, 1]}


def float_model(parameters: network.Parameters) -> ModelProto:
    """Return the float32 model."""
    w = Writer()
    x = IMAGE
    for layer in network.LAYERS:
        operands = [w.tensor(f"{layer.name}.{p}", parameters[f"{layer.name}.{p}"]) for p in PARTS]
        x = w.node("Conv", layer.name, [x, *operands], **_window(layer))
        x = w.node("Relu", layer.name, [x])
        if layer.pooled:
            x = w.node("MaxPool", "pool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = w.node("Flatten", "flatten", [x], axis=1)
    operands = [w.tensor(f"fc.{p}", parameters[f"fc.{p}"]) for p in PARTS]
    x = w.node("Gemm", "fc", [x, *operands], alpha=1.0, beta=1.0, transB=1)
    x = w.node("Softmax", "softmax", [x], axis=1)
    return w.finish(*_interface(TensorProto.FLOAT), x)


PARTS = ("weight", "bias")


def _parameters(w: Writer, layer: Layer, before: Scale) -> list[str]:
    """Add a layer's integer weight and bias and their DequantizeLinear nodes."""
    steps = w.tensor(f"{layer.name}.weight_scale", layer.weight_steps)
    zeros = w.tensor(f"{layer.name}.weight_zero_point", np.zeros(len(layer.weight), np.int8))
    weight = w.tensor(f"{layer.name}.weight_quantized", layer.weight)
    bias_steps = w.tensor(f"{layer.name}.bias_scale", before.step * layer.weight_steps)
    bias = w.tensor(f"{layer.name}.bias_quantized", layer.bias)
    return [
        w.node("DequantizeLinear", f"{layer.name}/weight", [weight, steps, zeros], axis=0),
        w.node("DequantizeLinear", f"{layer.name}/bias", [bias, bias_steps], axis=0),
    ]


def int8_model(model: Quantized) -> ModelProto:
    """Return the int8 model: int8 at both ends, Q/DQ pairs around each operator."""
    w = Writer()
    scale = w.scale("image", model.input)
    x, before = IMAGE, model.input
    for shape, layer in zip(network.LAYERS, model.layers, strict=False):
        real = w.node("DequantizeLinear", f"{layer.name}/input", [x, *scale])
        y = w.node("Conv", layer.name, [real, *_parameters(w, layer, before)], **_window(shape))
        y = w.node("Relu", layer.name, [y])
        scale, before = w.scale(f"{layer.name}.output", layer.output), layer.output
        x = w.node("QuantizeLinear", f"{layer.name}/output", [y, *scale])
        if shape.pooled:
            real = w.node("DequantizeLinear", "pool/input", [x, *scale])
            y = w.node("MaxPool", "pool", [real], kernel_shape=[2, 2], strides=[2, 2])
            x = w.node("QuantizeLinear", "pool/output", [y, *scale])
    last = model.layers[-1]
    real = w.node("DequantizeLinear", "flatten/input", [x, *scale])
    flat = w.node("Flatten", "flatten", [real], axis=1)
    x = w.node("QuantizeLinear", "flatten/output", [flat, *scale])
    real = w.node("DequantizeLinear", "fc/input", [x, *scale])
    y = w.node("Gemm", "fc", [real, *_parameters(w, last, before)], transB=1)
    scale = w.scale("fc.output", last.output)
    x = w.node("QuantizeLinear", "fc/output", [y, *scale])
    real = w.node("DequantizeLinear", "softmax/input", [x, *scale])
    y = w.node("Softmax", "softmax", [real], axis=1)
    x = w.node("QuantizeLinear", "softmax/output", [y, *w.scale(OUTPUT, model.probabilities)])
    return w.finish(*_interface(TensorProto.INT8), x)
