"""Profiles of small networks under the built-in rules: what is one kernel, what it costs."""

from collections.abc import Sequence
from functools import cache

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Attribute, Graph, Op, Tensor, Value
from dlbuild.ir.profile import Alias, Kernel, Profile
from dlbuild.ir.target import Options, Target
from dlbuild.rulebook.kernels import instance_of, orders_of, wish_of
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.profile import profile

HOST = Target("host", cycles={"float32": 3.0, "int8": 1.5})
IMAGE = (1, 2, 6, 6)


@cache
def rules() -> RuleBook:
    return load_rules([builtin_folder()])


def op(kind: str, inputs: str, outputs: str, **attributes: Attribute) -> Op:
    domain = "com.microsoft" if kind in ("QLinearAdd", "QGemm") else ""
    names = tuple("" if n == "-" else n for n in inputs.split())
    given = tuple(sorted(attributes.items()))
    return Op(f"node_{outputs}", kind, names, tuple(outputs.split()), given, domain, 17)


def network(
    tensors: dict[str, tuple[str, tuple[int, ...]]],
    ops: Sequence[Op],
    *,
    outputs: str = "y",
    values: tuple[Value, ...] = (),
) -> Graph:
    """tensors that nothing writes are constants, but for those that begin with x."""
    written = {name for one in ops for name in one.outputs}
    unwritten = [name for name in tensors if name not in written]
    return Graph(
        "net",
        tuple(n for n in unwritten if n.startswith("x")),
        tuple(outputs.split()),
        tuple(Tensor(n, dtype, shape) for n, (dtype, shape) in tensors.items()),
        tuple(ops),
        tuple(n for n in unwritten if not n.startswith("x")),
        values,
    )


def profiled(graph: Graph, options: Options | None = None, target: Target = HOST) -> Profile:
    return profile(graph, rules(), target, options or Options())


def names(found: Profile) -> list[tuple[str, ...]]:
    """The operators of each kernel by what they write."""
    return [tuple(o.removeprefix("node_") for o in k.ops) for k in found.kernels]


def f32(*shape: int) -> tuple[str, tuple[int, ...]]:
    return "float32", shape


def int8(*shape: int) -> tuple[str, tuple[int, ...]]:
    return "int8", shape


SCALARS = {"s": f32(), "z": int8(), "s2": f32(), "z2": int8(), "s3": f32(), "z3": int8()}


def residual() -> Graph:
    tensors = {
        "x": f32(*IMAGE),
        "w": f32(2, 2, 3, 3),
        "a": f32(*IMAGE),
        "b": f32(*IMAGE),
        "sum": f32(*IMAGE),
        "y": f32(*IMAGE),
    }
    pads = (1, 1, 1, 1)
    ops = [
        op("Conv", "x w", "a", pads=pads),
        op("Conv", "a w", "b", pads=pads),
        op("Add", "a b", "sum"),
        op("Relu", "sum", "y"),
    ]
    return network(tensors, ops)


def test_a_sum_and_its_activation_join_the_convolution_that_runs_last() -> None:
    found = profiled(residual())
    assert names(found) == [("a",), ("b", "sum", "y")]
    assert found.kernels[1] == Kernel(
        name="conv2",
        anchor="node_b",
        prologue=(),
        epilogue=("node_sum", "node_y"),
        rule=found.kernels[0].rule,
        variant="",
        reads=("a",),
        writes=("y",),
        constants=("w",),
        macs=72 * 18,
        flops=72 * 18 * 2 + 72 * 2,
        bytes_read=4 * (72 + 36),
        bytes_written=4 * 72,
        cycles=72 * 18 * 3 + 72 * 2,
    )


def test_a_kernel_is_rebuilt_from_the_names_of_its_operators() -> None:
    graph = residual()
    found = profiled(graph)
    (_, kernel) = found.kernels
    instance = instance_of(kernel, graph, rules(), wish_of(HOST, Options()))
    assert instance.ops == ("node_b", "node_sum", "node_y")
    orders = orders_of(kernel, instance, found)
    assert orders == {"x": (0, 2, 3, 1), "w": (0, 2, 3, 1), "y": (0, 1, 2, 3)}


def test_a_tensor_that_is_an_output_too_is_stored() -> None:
    tensors = {"x": f32(4), "mid": f32(4), "y": f32(4)}
    graph = network(tensors, [op("Tanh", "x", "mid"), op("Relu", "mid", "y")], outputs="mid y")
    assert names(profiled(graph)) == [("mid",), ("y",)]


def test_a_tensor_that_two_kernels_read_is_stored() -> None:
    tensors = {"x": f32(4), "mid": f32(4), "y": f32(4), "y2": f32(4)}
    ops = [op("Tanh", "x", "mid"), op("Relu", "mid", "y"), op("Neg", "mid", "y2")]
    assert names(profiled(network(tensors, ops, outputs="y y2"))) == [("mid",), ("y",), ("y2",)]


def test_a_gate_on_the_value_itself_joins_its_producer() -> None:
    tensors = {"x": f32(2, 3), "w": f32(3, 3), "a": f32(2, 3), "g": f32(2, 3), "y": f32(2, 3)}
    ops = [op("MatMul", "x w", "a"), op("Sigmoid", "a", "g"), op("Mul", "a g", "y")]
    assert names(profiled(network(tensors, ops))) == [("a", "g", "y")]


def test_an_operand_that_is_computed_later_is_no_reason_to_run_later() -> None:
    tensors = {"x": f32(2, 3), "w": f32(3, 3), "a": f32(2, 3), "t": f32(3, 2), "b": f32(3, 2)}
    tensors |= {"c": f32(2, 3), "y": f32(2, 3)}
    ops = [
        op("MatMul", "x w", "a"),
        op("Transpose", "x", "t"),
        op("Neg", "t", "b"),
        op("Transpose", "b", "c"),
        op("Add", "a c", "y"),
    ]
    assert names(profiled(network(tensors, ops))) == [("a",), ("t",), ("b",), ("c",), ("y",)]


def test_integers_stay_integers_around_a_function_of_reals() -> None:
    tensors = {"x": int8(8), "r": f32(8), "e": f32(8), "y": int8(8), **SCALARS}
    ops = [
        op("DequantizeLinear", "x s z", "r"),
        op("Exp", "r", "e"),
        op("QuantizeLinear", "e s2 z2", "y"),
    ]
    (kernel,) = profiled(network(tensors, ops)).kernels
    assert kernel.anchor == "node_e"
    assert (kernel.prologue, kernel.epilogue) == (("node_r",), ("node_y",))
    assert kernel.reads == ("x",)
    assert kernel.constants == ("s", "z", "s2", "z2")
    assert kernel.in_place == (("x", "y"),)


def test_a_conversion_that_two_kernels_read_is_repeated_in_both() -> None:
    tensors = {"x": int8(8), "r": f32(8), "y": f32(8), "y2": f32(8), **SCALARS}
    ops = [op("DequantizeLinear", "x s z", "r"), op("Exp", "r", "y"), op("Tanh", "r", "y2")]
    assert names(profiled(network(tensors, ops, outputs="y y2"))) == [("r", "y"), ("r", "y2")]


def product_of_converted() -> Graph:
    tensors = {"x": int8(16, 16), "r": f32(16, 16), "w": f32(16, 16), "y": f32(16, 16), **SCALARS}
    return network(tensors, [op("DequantizeLinear", "x s z", "r"), op("MatMul", "r w", "y")])


def test_a_conversion_is_not_repeated_for_each_column_of_a_product() -> None:
    assert names(profiled(product_of_converted())) == [("r",), ("y",)]


def test_a_conversion_is_repeated_where_memory_counts_more_than_time() -> None:
    assert names(profiled(product_of_converted(), Options(optimize="ram"))) == [("r", "y")]


def maximum_as_real() -> Graph:
    tensors = {"x": int8(64, 64), "h": int8(64, 64), "m": int8(64), "y": f32(64), **SCALARS}
    tensors["axes"] = ("int64", (1,))
    ops = [
        op("Abs", "x", "h"),
        op("ReduceMax", "h axes", "m", keepdims=0),
        op("DequantizeLinear", "m s z", "y"),
    ]
    return network(tensors, ops, values=(Value("axes", (1,), (1,)),))


def test_an_epilogue_that_would_raise_the_peak_is_a_kernel_of_its_own() -> None:
    options = Options(output="arena")
    assert names(profiled(maximum_as_real(), options)) == [("h",), ("m",), ("y",)]


def test_what_the_caller_holds_does_not_raise_the_peak() -> None:
    assert names(profiled(maximum_as_real())) == [("h",), ("m", "y")]


def test_a_view_needs_no_code() -> None:
    tensors = {"x": f32(2, 6), "h": f32(2, 6), "v": f32(3, 4), "y": f32(3, 4)}
    tensors["shape"] = ("int64", (2,))
    ops = [op("Abs", "x", "h"), op("Reshape", "h shape", "v"), op("Exp", "v", "y")]
    found = profiled(network(tensors, ops, values=(Value("shape", (2,), (3, 4)),)))
    assert [k.alias for k in found.kernels] == [None, Alias("h"), None]
    assert found.kernel["reshape2"].bytes_read == 48


def test_a_depthwise_convolution_is_called_one() -> None:
    tensors = {"x": f32(*IMAGE), "w": f32(2, 1, 3, 3), "y": f32(1, 2, 4, 4)}
    (kernel,) = profiled(network(tensors, [op("Conv", "x w", "y", group=2)])).kernels
    assert kernel.name == "depthwise1"


def test_cycles_are_those_of_the_type_that_is_multiplied() -> None:
    tensors = {"x": int8(4, 8), "w": int8(8, 2), "y": ("int32", (4, 2))}
    graph = network(tensors, [op("MatMulInteger", "x w", "y")])
    (kernel,) = profiled(graph).kernels
    assert (kernel.macs, kernel.cycles) == (64, 96)


def test_a_target_without_figures_counts_one_cycle_for_each_mac() -> None:
    tensors = {"x": f32(4, 8), "w": f32(8, 2), "y": f32(4, 2)}
    (kernel,) = profiled(network(tensors, [op("MatMul", "x w", "y")]), target=Target("t")).kernels
    assert kernel.cycles == 64


def test_a_group_with_a_prologue_may_become_a_prologue_itself() -> None:
    tensors = {
        "x0": f32(1, 6),
        "i": ("int64", ()),
        "less": ("bool", (1, 6)),
        "real": f32(1, 6),
        "part": f32(6),
        "log": f32(1, 6),
        "y": f32(6),
        "y2": f32(1, 6),
    }
    ops = [
        op("Log", "x0", "log"),
        op("GreaterOrEqual", "log x0", "less"),
        op("Where", "less log x0", "y2"),
        op("Cast", "less", "real", to=1),
        op("Gather", "real i", "part", axis=0),
        op("Hardmax", "part", "y", axis=-1),
    ]
    kernels = names(profiled(network(tensors, ops, outputs="y y2")))
    assert sorted(name for kernel in kernels for name in kernel) == sorted(
        {"log", "less", "y2", "real", "part", "y"}
    )
