"""Post-training quantisation of the network: int8 by channel, and its integer forward pass.

Activations: one scale and zero point for each tensor, from the least and greatest value seen.
Weights: symmetric, one scale for each output channel. Biases: int32 with the product scale.
"""

from dataclasses import dataclass

import network
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Scale:
    """How int8 numbers stand for reals: real = (q - zero_point) * step."""

    step: np.float32
    zero_point: np.int8

    def quantize(self, reals: network.Array) -> NDArray[np.int8]:
        """Return the nearest representable numbers (ties to even, as in ONNX)."""
        scaled = np.rint(reals / self.step) + self.zero_point
        return np.clip(scaled, -128, 127).astype(np.int8)


@dataclass(frozen=True)
class Layer:
    """A convolution or the last layer in integers."""

    name: str
    weight: NDArray[np.int8]
    weight_steps: network.Array
    bias: NDArray[np.int32]
    output: Scale


@dataclass(frozen=True)
class Quantized:
    """The whole network in integers."""

    input: Scale
    layers: tuple[Layer, ...]
    probabilities: Scale


PROBABILITIES = Scale(np.float32(1 / 256), np.int8(-128))


def scale_of(values: network.Array) -> Scale:
    """Return the scale that covers `values` and 0."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    step = np.float32((high - low) / 255)
    return Scale(step, np.int8(np.clip(np.rint(-128 - low / step), -128, 127)))


def quantize(parameters: network.Parameters, images: network.Array) -> Quantized:
    """Return the integer network whose activation ranges cover those of `images`."""
    trace = network.forward(parameters, images)
    ranges = [scale_of(values) for values in (*trace.activated, trace.logits)]
    first = previous = scale_of(images)
    layers = []
    names = [layer.name for layer in network.LAYERS] + ["fc"]
    for name, output in zip(names, ranges, strict=True):
        layers.append(_layer(name, parameters, previous, output))
        previous = output
    return Quantized(first, tuple(layers), PROBABILITIES)


def _layer(name: str, parameters: network.Parameters, before: Scale, after: Scale) -> Layer:
    weight = parameters[f"{name}.weight"]
    n_out = len(weight)
    steps = (np.abs(weight.reshape(n_out, -1)).max(axis=1) / np.float32(127)).astype(np.float32)
    by_channel = steps.reshape((n_out,) + (1,) * (weight.ndim - 1))
    rounded = np.clip(np.rint(weight / by_channel), -127, 127).astype(np.int8)
    bias = np.rint(parameters[f"{name}.bias"] / (before.step * steps)).astype(np.int32)
    return Layer(name, rounded, steps, bias, after)


def _rescaled(sums: NDArray[np.float64], layer: Layer, before: Scale) -> NDArray[np.int8]:
    """Bring sums [N, M, ...] to int8 as QLinearConv does: float32 multiply, ties to even."""
    factor = (before.step * layer.weight_steps) / layer.output.step
    shape = (1, len(factor)) + (1,) * (sums.ndim - 2)
    scaled = np.rint(sums.astype(np.float32) * factor.reshape(shape)) + layer.output.zero_point
    return np.clip(scaled, -128, 127).astype(np.int8)


def forward(model: Quantized, images: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the int8 probabilities of int8 images. Sums are exact: all stay below 2^24."""
    x, before = images, model.input
    for shape, layer in zip(network.LAYERS, model.layers, strict=False):
        centred = x.astype(np.float64) - float(before.zero_point)
        weight, bias = layer.weight.astype(np.float64), layer.bias.astype(np.float64)
        sums = network.convolve(centred, weight, bias, shape.pad)  # type: ignore[arg-type] # exact in float64
        # Relu is the lower limit of int8 here: the range begins at 0, so zero_point is -128.
        x = _rescaled(sums.astype(np.float64), layer, before)
        before = layer.output
        if shape.pooled:
            x = network.max_pool(x)  # type: ignore[arg-type, assignment] # a maximum keeps int8
    last = model.layers[-1]
    flat = x.reshape(len(x), -1).astype(np.float64) - float(before.zero_point)
    logits = _rescaled(flat @ last.weight.T.astype(np.float64) + last.bias, last, before)
    reals = (logits.astype(np.float32) - np.float32(last.output.zero_point)) * last.output.step
    return model.probabilities.quantize(network.softmax(reals))
