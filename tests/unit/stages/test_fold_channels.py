"""Without its constant channels a model gives the same numbers, to the bit."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from dlbuild.ir.graph import Attribute, Fact, Graph, Op, Tensor, Value
from dlbuild.ir.target import Rounding
from dlbuild.ir.weights import Array, dtype_name
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import load_rules
from dlbuild.rulebook.match import Wish, match
from dlbuild.stages.fold_channels import fold_constant_channels
from dlbuild.stages.parse import Parsed

BOOK = load_rules([Path(__file__).parents[3]])
LOWEST = -128


@dataclass
class Net:
    """A model of integer convolutions, made operator by operator."""

    seed: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def input(self, *shape: int) -> str:
        self.tensors["x"] = Tensor("x", "int8", shape)
        return "x"

    def constant(self, name: str, content: Array) -> str:
        self.weights[name] = content
        self.tensors[name] = Tensor(name, dtype_name(content), content.shape)
        return name

    def op(
        self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: Attribute
    ) -> str:
        name = f"t{len(self.ops)}"
        self.tensors[name] = Tensor(name, "int8", shape)
        domain = "com.microsoft" if kind in ("QLinearAdd", "QGemm") else ""
        given = tuple(sorted(attributes.items()))
        self.ops.append(Op(name, kind, tuple(inputs), (name,), given, domain, 1 if domain else 18))
        return name

    def conv(  # noqa: PLR0913 - what a convolution is
        self,
        x: str,
        channels: int,
        *,
        kernel: int = 1,
        dead: int = 0,
        zero: int = LOWEST,
        bias: bool = True,
        depthwise: bool = False,
    ) -> str:
        """Add a convolution of which the first `dead` channels hold one number each."""
        n, before, height, width = self.tensors[x].shape
        at, group = f"w{len(self.ops)}", before if depthwise else 1
        weights = self.random.integers(-9, 9, (channels, before // group, kernel, kernel))
        weights[:dead:2] = 0
        sums = self.random.integers(-500, 500, channels)
        sums[1:dead:2] = -(10**6)  # never above the least
        constants = [
            self.constant(f"{at}_xs", np.array(0.1, np.float32)),
            self.constant(f"{at}_xz", np.array(zero, np.int8)),
            self.constant(at, weights.astype(np.int8)),
            self.constant(f"{at}_ws", self.random.uniform(0.01, 0.1, channels).astype(np.float32)),
            self.constant(f"{at}_wz", np.zeros(channels, np.int8)),
            self.constant(f"{at}_ys", np.array(0.5, np.float32)),
            self.constant(f"{at}_yz", np.array(LOWEST, np.int8)),
        ]
        if bias:
            constants.append(self.constant(f"{at}_b", sums.astype(np.int32)))
        pads = (kernel // 2,) * 4
        shape = (n, channels, height, width)
        return self.op("QLinearConv", [x, *constants], shape, group=group, pads=pads)

    def parsed(self, *outputs: str) -> Parsed:
        constants = tuple(sorted(self.weights))
        graph = Graph(
            "net",
            ("x",),
            outputs,
            tuple(self.tensors.values()),
            tuple(self.ops),
            constants,
            tuple(self.values),
        )
        return Parsed(graph, self.weights)


def run(parsed: Parsed, x: Array, rounding: Rounding) -> Mapping[str, Array]:
    values: dict[str, Array] = {**parsed.weights, "x": x}
    for op in parsed.graph.ops:
        instance = match(op, parsed.graph, BOOK, Wish(rounding=rounding))
        given = {o.name: values[o.tensor] for o in instance.operands if o.role == "input"}
        tensor = {o.name: o.tensor for o in instance.operands}
        values |= {tensor[name]: a for name, a in interpret(instance, given).items()}
    return {name: values[name] for name in parsed.graph.outputs}


def left(parsed: Parsed) -> dict[str, int]:
    """Return how many slices are left of each tensor that lost some."""
    return {kept.tensor: len(kept.members) for kept in parsed.graph.kept}


def folded(net: Net, *outputs: str) -> Parsed:
    """Return the folded model; it gives the same numbers."""
    whole = net.parsed(*outputs)
    found = fold_constant_channels(whole, BOOK)
    for seed in range(4):
        values = np.random.default_rng(seed).integers(-128, 128, net.tensors["x"].shape)
        x = values.astype(np.int8) if seed else np.full(values.shape, 127, np.int8)
        for rounding in ("exact", "fixed"):
            due, ours = run(whole, x, rounding), run(found, x, rounding)
            for name in outputs:
                np.testing.assert_array_equal(ours[name], due[name])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_channels_go_through_a_chain(seed: int) -> None:
    net = Net(seed)
    first = net.conv(net.input(1, 3, 5, 4), 12, kernel=3, dead=7)
    middle = net.conv(first, 12, kernel=3, dead=12, depthwise=True)
    last = net.conv(net.conv(middle, 8, dead=5), 2)

    found = folded(net, last)

    assert left(found)["t2"] == 4
    assert left(found).get("t0") == left(found).get("t1") == 4  # one is constant: all go with it
    [note] = found.graph.notes
    assert "channels of 3 tensors are constant" in note


def test_the_border_keeps_a_channel() -> None:
    """A constant channel that is not the zero point differs where taps lie outside."""
    inside, border = Net(1), Net(1)
    for net, zero in ((inside, LOWEST), (border, LOWEST + 1)):
        first = net.conv(net.input(1, 4, 5, 4), 8, dead=4)
        last = net.conv(first, 4, kernel=3, zero=zero)
        net.weights["w0_b"][:4] = -(10**6)  # all hold the least
        found = folded(net, last)
        assert left(found) == ({"t0": 4} if net is inside else {})


def test_channels_that_meet_others_stay() -> None:
    net = Net(2)
    x = net.input(1, 4, 3, 3)
    one, other = net.conv(x, 8, dead=8), net.conv(x, 8, dead=4)
    scale = net.constant("scale", np.array(0.5, np.float32))
    zero = net.constant("zero", np.array(LOWEST, np.int8))
    total = net.op("QLinearAdd", [one, scale, zero, other, scale, zero, scale, zero], (1, 8, 3, 3))
    last = net.conv(total, 4)

    found = folded(net, last)

    assert left(found) == {"t0": 4, "t1": 4, "t2": 4}


def test_outputs_and_what_others_read_stay() -> None:
    net = Net(3)
    first = net.conv(net.input(1, 4, 3, 3), 8, dead=8)
    last = net.conv(first, 8, dead=8)

    assert left(folded(net, first, last)) == {}


def test_a_sum_without_a_bias_keeps_what_is_not_zero() -> None:
    net = Net(4)
    first = net.conv(net.input(1, 4, 3, 3), 8, dead=4)
    last = net.conv(first, 4, bias=False)

    assert left(folded(net, last)) == {}


def test_shared_weights_stay() -> None:
    net = Net(5)
    first = net.conv(net.input(1, 4, 3, 3), 8, dead=4)
    second = net.conv(first, 8)
    *before, bias = net.ops[-1].inputs
    third = net.op("QLinearConv", [first, *before[1:], bias], (1, 8, 3, 3))

    assert left(folded(net, second, third)) == {}


def test_channels_go_through_pools_and_changes_of_shape() -> None:
    net = Net(6)
    first = net.conv(net.input(1, 4, 3, 3), 16, dead=9)
    pooled = net.op("MaxPool", [first], (1, 16, 1, 1), kernel_shape=(3, 3))
    turned = net.op("Transpose", [pooled], (1, 1, 1, 16), perm=(0, 2, 3, 1))
    shape = net.constant("shape", np.array([1, 16], np.int64))
    net.values.append(Value(shape, (2,), (1, 16)))
    flat = net.op("Reshape", [turned, shape], (1, 16))
    scale = net.constant("scale", np.array(0.5, np.float32))
    zero = net.constant("zero", np.array(LOWEST, np.int8))
    weights = net.constant("dense", net.random.integers(-9, 9, (3, 16)).astype(np.int8))
    none = net.constant("none", np.array(0, np.int8))
    bias = net.constant("bias", net.random.integers(-99, 99, 3).astype(np.int32))
    inputs = [flat, scale, zero, weights, scale, none, bias, scale, zero]
    last = net.op("QGemm", inputs, (1, 3), transB=1)

    found = folded(net, last)

    assert left(found) == dict.fromkeys(("t0", "t1", "t2", "t3"), 8)
    assert found.graph.value["shape"].content == (1, 8)
    assert found.weights["shape"].tolist() == [1, 8]


def test_what_floats_become_may_be_no_number() -> None:
    """A float that is limited to one number may still be NaN, and NaN is quantised to the least."""
    net = Net(8)
    net.tensors["x"] = Tensor("x", "float32", (1, 8, 3, 3))
    weights = net.constant("weights", np.ones((8, 8, 1, 1), np.float32))
    net.tensors["Conv"] = Tensor("Conv", "float32", (1, 8, 3, 3))
    net.ops.append(Op("Conv", "Conv", ("x", weights), ("Conv",), (), "", 18))
    limits = {"Max": np.array(-1), "Min": np.array(1), "Mul": np.zeros((1, 8, 1, 1))}
    at = "Conv"
    for kind, limit in limits.items():
        inputs = (at, net.constant(f"{kind}_by", limit.astype(np.float32)))
        at = kind
        net.tensors[at] = Tensor(at, "float32", (1, 8, 3, 3))
        net.ops.append(Op(at, kind, inputs, (at,), (), "", 18))
    scale = net.constant("scale", np.array(0.5, np.float32))
    zero = net.constant("zero", np.array(7, np.int8))
    last = net.conv(net.op("QuantizeLinear", [at, scale, zero], (1, 8, 3, 3)), 4, zero=7)

    assert left(fold_constant_channels(net.parsed(last), BOOK)) == {}


def test_a_bias_of_which_something_is_known_stays() -> None:
    net = Net(9)
    first = net.conv(net.input(1, 4, 3, 3), 8, dead=4)
    last = net.conv(first, 4)
    whole = net.parsed(last)
    known = replace(whole.graph, facts=(Fact("all_zero", ("w1_b",)),))

    assert left(whole_folded := fold_constant_channels(whole, BOOK)) == {"t0": 4}
    assert not np.array_equal(whole_folded.weights["w1_b"], whole.weights["w1_b"])
    assert left(fold_constant_channels(Parsed(known, whole.weights), BOOK)) == {}


def test_nothing_is_left_out_where_nothing_is_constant() -> None:
    net = Net(7)
    whole = net.parsed(net.conv(net.conv(net.input(1, 4, 3, 3), 8), 4))

    found = fold_constant_channels(whole, BOOK)

    assert found.graph == whole.graph
