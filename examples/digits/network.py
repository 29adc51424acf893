"""A small convolutional network in plain numpy: forward, gradients, and one training step.

Images are NCHW. The layers are those of `LAYERS`; each parameter is one float32 array.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float32]
Parameters = dict[str, Array]


@dataclass(frozen=True)
class Convolution:
    """A 3x3 convolution followed by Relu, and by a 2x2 max pool if `pooled`."""

    name: str
    n_in: int
    n_out: int
    pad: int
    pooled: bool


LAYERS = (
    Convolution("conv1", 1, 8, 1, pooled=False),  # 8x8 -> 8x8
    Convolution("conv2", 8, 16, 1, pooled=True),  # 8x8 -> 4x4
    Convolution("conv3", 16, 32, 0, pooled=False),  # 4x4 -> 2x2
)
N_FLAT = 32 * 2 * 2
N_CLASSES = 10
KERNEL = 3


@dataclass(frozen=True)
class Trace:
    """What a forward pass leaves for the gradients: each layer's input and Relu output."""

    inputs: tuple[Array, ...]
    activated: tuple[Array, ...]
    flat: Array
    logits: Array


def initial(seed: int) -> Parameters:
    """Return He-initialised parameters."""
    rng = np.random.default_rng(seed)
    found: Parameters = {}
    for layer in LAYERS:
        shape = (layer.n_out, layer.n_in, KERNEL, KERNEL)
        spread = np.sqrt(2 / (layer.n_in * KERNEL * KERNEL))
        found[f"{layer.name}.weight"] = (rng.standard_normal(shape) * spread).astype(np.float32)
        found[f"{layer.name}.bias"] = np.zeros(layer.n_out, np.float32)
    spread = np.sqrt(2 / N_FLAT)
    found["fc.weight"] = (rng.standard_normal((N_CLASSES, N_FLAT)) * spread).astype(np.float32)
    found["fc.bias"] = np.zeros(N_CLASSES, np.float32)
    return found


def windows(x: Array, pad: int) -> Array:
    """Return the 3x3 windows of `x` [N, C, H, W] as a view [N, C, OH, OW, 3, 3]."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return sliding_window_view(padded, (KERNEL, KERNEL), axis=(2, 3))


def convolve(x: Array, weight: Array, bias: Array, pad: int) -> Array:
    """Return the stride-1 convolution of `x` [N, C, H, W] with `weight` [M, C, 3, 3]."""
    summed = np.tensordot(windows(x, pad), weight, axes=((1, 4, 5), (1, 2, 3)))
    return np.ascontiguousarray(summed.transpose(0, 3, 1, 2)) + bias[:, None, None]


def max_pool(x: Array) -> Array:
    """Return the maximum of each 2x2 block."""
    n, c, h, w = x.shape
    blocks: Array = x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    return blocks


def forward(parameters: Parameters, images: Array) -> Trace:
    """Return the logits of `images` [N, 1, 8, 8] and what the gradients need."""
    x = images
    inputs, activated = [], []
    for layer in LAYERS:
        weight, bias = parameters[f"{layer.name}.weight"], parameters[f"{layer.name}.bias"]
        inputs.append(x)
        x = np.maximum(convolve(x, weight, bias, layer.pad), np.float32(0))
        activated.append(x)
        if layer.pooled:
            x = max_pool(x)
    flat = x.reshape(len(x), -1)
    logits = flat @ parameters["fc.weight"].T + parameters["fc.bias"]
    return Trace(tuple(inputs), tuple(activated), flat, logits)


def softmax(logits: Array) -> Array:
    """Return the probabilities of `logits` [N, classes]."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    scaled: Array = raised / raised.sum(axis=1, keepdims=True)
    return scaled


def gradients(parameters: Parameters, images: Array, labels: NDArray[np.int64]) -> Parameters:
    """Return the gradient of the mean cross-entropy by each parameter."""
    trace = forward(parameters, images)
    slope = softmax(trace.logits)
    slope[np.arange(len(labels)), labels] -= 1
    slope /= np.float32(len(labels))
    found = {"fc.weight": slope.T @ trace.flat, "fc.bias": slope.sum(axis=0)}
    slope = slope @ parameters["fc.weight"]
    for layer, x, active in reversed(list(zip(LAYERS, trace.inputs, trace.activated, strict=True))):
        if layer.pooled:
            slope = _pool_slope(active, slope)
        slope = slope.reshape(active.shape) * (active > 0)
        found[f"{layer.name}.bias"] = slope.sum(axis=(0, 2, 3))
        found[f"{layer.name}.weight"] = np.tensordot(
            slope, windows(x, layer.pad), axes=((0, 2, 3), (0, 2, 3))
        )
        flipped = parameters[f"{layer.name}.weight"][:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        none = np.zeros(layer.n_in, np.float32)
        slope = convolve(slope, flipped, none, KERNEL - 1 - layer.pad)
    return found


def _pool_slope(active: Array, slope: Array) -> Array:
    """Hand the slope of each 2x2 maximum to the elements that are the maximum."""
    top = max_pool(active)
    spread = slope.reshape(top.shape).repeat(2, axis=2).repeat(2, axis=3)
    return spread * (active == top.repeat(2, axis=2).repeat(2, axis=3))


@dataclass
class Adam:
    """The Adam optimiser (Kingma and Ba, 2015, algorithm 1)."""

    rate: float
    mean: Parameters
    square: Parameters
    n_steps: int = 0

    def step(self, parameters: Parameters, slopes: Parameters) -> None:
        """Move `parameters` by one step, in place."""
        self.n_steps += 1
        first, second = 1 - 0.9**self.n_steps, 1 - 0.999**self.n_steps
        for name, slope in slopes.items():
            self.mean[name] = (0.9 * self.mean[name] + 0.1 * slope).astype(np.float32)
            self.square[name] = (0.999 * self.square[name] + 0.001 * slope**2).astype(np.float32)
            size = np.sqrt(self.square[name] / second) + 1e-8
            change = self.rate * (self.mean[name] / first) / size
            parameters[name] = (parameters[name] - change).astype(np.float32)


def shifted(images: Array, rows: int, columns: int) -> Array:
    """Return `images` moved by at most one pixel each way, with black where nothing came from."""
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return padded[:, :, 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]


def train(images: Array, labels: NDArray[np.int64], seed: int, n_epochs: int) -> Parameters:
    """Return parameters trained on `images` [N, 1, 8, 8]."""
    rng = np.random.default_rng(seed)
    parameters = initial(seed)
    empty = {name: np.zeros_like(value) for name, value in parameters.items()}
    optimiser = Adam(0.002, dict(empty), dict(empty))
    for epoch in range(n_epochs):
        optimiser.rate = 0.002 * (1 - epoch / n_epochs)
        order = rng.permutation(len(images))
        for first in range(0, len(order), 32):
            batch = order[first : first + 32]
            moved = shifted(images[batch], *rng.integers(-1, 2, 2))
            optimiser.step(parameters, gradients(parameters, moved, labels[batch]))
    return parameters
