"""Models of the memory benchmarks: the dimensions of published networks, weights from a seed.

    python bench/strip_models.py DIR

writes `DIR/<name>.onnx` for each: int8, quantised operators, no training. The dimensions are those
of research that compares peak RAM: MobileNetV1-0.25 at 96, MobileNetV2-0.35 at 144 and 1.0 at 224
(Keras rounding of channels), ResNet8 and DS-CNN of MLPerf Tiny, MCUNet-320K at 176 with residuals.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 5
SPREAD = 50.0
"""Standard deviation that an output should have in units of its scale."""


class Net:
    """An integer network as it grows: `at` is the tensor last made, [C, H, W]."""

    def __init__(self, name: str, channels: int, height: int, width: int) -> None:
        """The input's extents."""
        self.name = name
        self.random = np.random.default_rng(SEED)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.at = "input"
        self.shape: dict[str, tuple[int, int, int]] = {"input": (channels, height, width)}
        self.scalar("one", np.float32(1.0))
        self.scalar("zero", np.int8(0))

    def scalar(self, name: str, value: np.generic | np.ndarray) -> str:
        """Add a constant."""
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def conv(self, channels: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> str:
        """Add a convolution with padding `same`; no channels = depthwise."""
        depth, height, width = self.shape[self.at]
        group = 1 if channels else depth
        made = channels or depth
        pads = [
            max((-(-extent // s) - 1) * s + k - extent, 0)
            for extent, k, s in zip((height, width), kernel, stride, strict=True)
        ]
        shape = (made, depth // group, *kernel)
        name = f"conv{len(self.nodes)}"
        bias = self.random.integers(-500, 500, made).astype(np.int32)
        wanted = [
            *(self.at, "one", "zero", self._integers(f"{name}_w", shape)),
            *(self._scale(f"{name}_ws", shape), "zero", "one", "zero"),
            self.scalar(f"{name}_b", bias),
        ]
        before = [p // 2 for p in pads]
        after = [p - b for p, b in zip(pads, before, strict=True)]
        self.nodes.append(
            helper.make_node(
                "QLinearConv",
                wanted,
                [name],
                name,
                kernel_shape=list(kernel),
                strides=list(stride),
                pads=[*before, *after],
                group=group,
            )
        )
        self.shape[name] = (made, -(-height // stride[0]), -(-width // stride[1]))
        self.at = name
        return name

    def add(self, other: str) -> str:
        """Add a residual connection from `other`."""
        name = f"add{len(self.nodes)}"
        root = self.scalar(f"{name}_s", np.float32(1.5))
        wanted = [self.at, "one", "zero", other, "one", "zero", root, "zero"]
        self.nodes.append(
            helper.make_node("QLinearAdd", wanted, [name], name, domain="com.microsoft")
        )
        self.shape[name] = self.shape[self.at]
        self.at = name
        return name

    def pool(self) -> None:
        """Add the mean over all pixels; its spread is that of one pixel over the root of n."""
        channels, height, width = self.shape[self.at]
        scale = self.scalar("pool_s", np.float32(1.0 / np.sqrt(height * width)))
        wanted = [self.at, "one", "zero", scale, "zero"]
        self.nodes.append(
            helper.make_node(
                "QLinearGlobalAveragePool", wanted, ["pool"], "pool", domain="com.microsoft"
            )
        )
        self.nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], "flat"))
        self.shape["flat"] = (channels, 1, 1)
        self.at = "flat"

    def dense(self, count: int) -> None:
        """Add a fully connected layer; it is the output if it is the last."""
        channels = self.shape[self.at][0]
        shape = (channels, count)
        name = f"dense{len(self.nodes)}"
        weights = self._integers(f"{name}_w", shape)
        scale = self.scalar(f"{name}_ws", np.float32(_unit(channels)))
        wanted = [self.at, "one", "zero", weights, scale, "zero", "one", "zero"]
        self.nodes.append(helper.make_node("QLinearMatMul", wanted, [name], name))
        self.shape[name] = (count, 1, 1)
        self.at = name

    def model(self) -> onnx.ModelProto:
        """Return the network as a model."""
        shapes = {n: [1, *s] if "dense" not in n else [1, s[0]] for n, s in self.shape.items()}
        ends = [
            helper.make_tensor_value_info(name, TensorProto.INT8, shapes[name])
            for name in ("input", self.at)
        ]
        graph = helper.make_graph(self.nodes, self.name, ends[:1], ends[1:], self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def _integers(self, name: str, shape: tuple[int, ...]) -> str:
        return self.scalar(name, self.random.integers(-127, 128, shape).astype(np.int8))

    def _scale(self, name: str, shape: tuple[int, ...]) -> str:
        unit = _unit(int(np.prod(shape[1:])))
        spread = self.random.uniform(0.8, 1.25, shape[0])
        return self.scalar(name, (unit * spread).astype(np.float32))


def _unit(count: int) -> float:
    """Return the scale of weights with which a sum of `count` products keeps its spread."""
    weight = 127 / np.sqrt(3)
    return float(1 / (weight * np.sqrt(count)))


def _rounded(channels: float) -> int:
    """Return a number of channels as Keras rounds it: a multiple of 8, not 10 % less."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def mobilenet_v1() -> Net:
    """MobileNetV1-0.25, 96 x 96 x 3, two classes (visual wake words of MLPerf Tiny)."""
    net = Net("mobilenet_v1_025_96", 3, 96, 96)
    net.conv(8, (3, 3), (2, 2))
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5]
    for channels, stride in [*blocks, (1024, 2), (1024, 1)]:
        net.conv(0, (3, 3), (stride, stride))
        net.conv(channels // 4, (1, 1))
    net.pool()
    net.dense(2)
    return net


def mobilenet_v2(alpha: float, size: int, name: str) -> Net:
    """MobileNetV2 with Keras' rounding, 1000 classes."""
    net = Net(name, 3, size, size)
    net.conv(_rounded(32 * alpha), (3, 3), (2, 2))
    stages = [
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ]
    for expansion, channels, count, first_stride in stages:
        for number in range(count):
            stride = first_stride if number == 0 else 1
            _inverted(net, expansion, _rounded(channels * alpha), stride, 3)
    net.conv(max(1280, _rounded(1280 * alpha)), (1, 1))
    net.pool()
    net.dense(1000)
    return net


def _inverted(net: Net, expansion: int, channels: int, stride: int, kernel: int) -> None:
    """Add an inverted residual block."""
    start, depth = net.at, net.shape[net.at][0]
    if expansion != 1:
        net.conv(depth * expansion, (1, 1))
    net.conv(0, (kernel, kernel), (stride, stride))
    net.conv(channels, (1, 1))
    if stride == 1 and depth == channels:
        net.add(start)


def mobilenet_v2_small() -> Net:
    """MobileNetV2-0.35 at 144 x 144."""
    return mobilenet_v2(0.35, 144, "mobilenet_v2_035_144")


def mobilenet_v2_large() -> Net:
    """MobileNetV2-1.0 at 224 x 224."""
    return mobilenet_v2(1.0, 224, "mobilenet_v2_100_224")


def resnet8() -> Net:
    """ResNet8 of MLPerf Tiny, 32 x 32 x 3."""
    net = Net("resnet8", 3, 32, 32)
    start = net.conv(16, (3, 3))
    net.conv(16, (3, 3))
    net.conv(16, (3, 3))
    net.add(start)
    for channels in (32, 64):
        start = net.at
        net.conv(channels, (3, 3), (2, 2))
        end = net.conv(channels, (3, 3))
        net.at = start
        net.conv(channels, (1, 1), (2, 2))
        net.add(end)
    net.pool()
    net.dense(10)
    return net


def ds_cnn() -> Net:
    """DS-CNN for keyword spotting, 49 x 10 x 1."""
    net = Net("ds_cnn", 1, 49, 10)
    net.conv(64, (10, 4), (2, 2))
    for _ in range(4):
        net.conv(0, (3, 3))
        net.conv(64, (1, 1))
    net.pool()
    net.dense(12)
    return net


def mcunet() -> Net:
    """MCUNet-320K for ImageNet at 176 x 176, with its residuals, without its head."""
    net = Net("mcunet_320k_176", 3, 176, 176)
    net.conv(16, (3, 3), (2, 2))
    net.conv(0, (3, 3))
    net.conv(8, (1, 1))
    blocks = [
        *((16, 3, 2, 7), (16, 5, 1, 3), (16, 5, 1, 7), (16, 4, 1, 5), (24, 5, 2, 5)),
        *((24, 5, 1, 5), (24, 5, 1, 5), (40, 5, 2, 3), (40, 6, 1, 7), (40, 4, 1, 5)),
        *((48, 5, 1, 5), (48, 5, 1, 7), (48, 5, 1, 3), (96, 6, 2, 3), (96, 5, 1, 7)),
        *((96, 4, 1, 3), (160, 5, 1, 7)),
    ]
    for channels, expansion, stride, kernel in blocks:
        _inverted(net, expansion, channels, stride, kernel)
    return net


NETS: dict[str, Callable[[], Net]] = {
    "mobilenet_v1_025_96": mobilenet_v1,
    "mobilenet_v2_035_144": mobilenet_v2_small,
    "mobilenet_v2_100_224": mobilenet_v2_large,
    "resnet8": resnet8,
    "ds_cnn": ds_cnn,
    "mcunet_320k_176": mcunet,
}


def main(arguments: list[str]) -> int:
    """Write the models."""
    if len(arguments) != 1:
        print("usage: python bench/strip_models.py DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, net in NETS.items():
        onnx.save(net().model(), folder / f"{name}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
