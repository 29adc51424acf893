"""Kernels printed from the real rules, compiled, and compared with numpy's answer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dlbuild.emit.helpers import helper_names, helper_text, helpers_of
from dlbuild.emit.kernel import KernelText, render_kernel
from dlbuild.ir.graph import Attribute, Fact, Graph, Op, Tensor, Value
from dlbuild.ir.target import Registers, Rounding
from dlbuild.ir.weights import Array
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.interpret import interpret, make
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import Wish, match
from tests.run.conftest import (
    ENVIRONMENT,
    HEADER,
    Calls,
    Compile,
    Formatted,
    Orders,
    Source,
    functions_of,
)

ROOT = Path(__file__).parent.parent.parent
MICROSOFT = "com.microsoft"

T = tuple[str, tuple[int, ...]]
F4: T = ("float32", ())
Q1: T = ("int8", ())
U1: T = ("uint8", ())


def f32(*shape: int) -> T:
    return "float32", shape


def i8(*shape: int) -> T:
    return "int8", shape


@dataclass(frozen=True)
class Case:
    """One operator: its inputs (an activation first), outputs, attributes and known values."""

    kind: str
    inputs: tuple[T, ...]
    outputs: tuple[T, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    domain: str = ""
    values: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    activations: tuple[int, ...] = (0,)
    zero: tuple[int, ...] = ()
    rounding: Rounding = "exact"


def conv(x: T, w: T, y: T, **attributes: Attribute) -> Case:
    return Case("Conv", (x, w, f32(w[1][0])), (y,), attributes)


def qconv(x: T, w: T, y: T, rounding: Rounding, **attributes: Attribute) -> Case:
    """Return a convolution of integers; those of signed weights have no zero point."""
    m = w[1][0]
    inputs = (x, F4, (x[0], ()), w, f32(m), (w[0], (m,)), F4, (y[0], ()), ("int32", (m,)))
    zero = (5,) if w[0] == "int8" else ()
    return Case("QLinearConv", inputs, (y,), attributes, rounding=rounding, zero=zero)


def qadd(rounding: Rounding) -> Case:
    inputs = (i8(1, 4, 5, 5), F4, Q1, i8(1, 4, 5, 5), F4, Q1, F4, Q1)
    return Case(
        "QLinearAdd",
        inputs,
        (i8(1, 4, 5, 5),),
        domain=MICROSOFT,
        activations=(0, 3),
        rounding=rounding,
    )


def unary(kind: str, dtype: str = "float32", **attributes: Attribute) -> Case:
    return Case(kind, ((dtype, (2, 3, 4)),), ((dtype, (2, 3, 4)),), attributes)


def binary(kind: str, a: T, b: T, y: T) -> Case:
    return Case(kind, (a, b), (y,), activations=(0, 1))


PADS: dict[str, Attribute] = {"pads": (1, 1, 1, 1)}
POOL: dict[str, Attribute] = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 0, 1, 1)}
CASES = {
    "add_broadcast": binary("Add", f32(2, 3, 4), f32(4), f32(2, 3, 4)),
    "add_int32_wraps": binary("Add", ("int32", (5, 7)), ("int32", (5, 7)), ("int32", (5, 7))),
    "mul_int64_wraps": binary("Mul", ("int64", (35,)), ("int64", (35,)), ("int64", (35,))),
    "div_int8": binary("Div", i8(40), i8(40), i8(40)),
    "div_int64": binary("Div", ("int64", (40,)), ("int64", (40,)), ("int64", (40,))),
    "mod_int8": binary("Mod", i8(40), i8(40), i8(40)),
    "mod_uint16": binary("Mod", ("uint16", (9,)), ("uint16", (9,)), ("uint16", (9,))),
    "less_bool": binary("Less", f32(3, 1), f32(1, 4), ("bool", (3, 4))),
    "xor_bool": binary("Xor", ("bool", (8,)), ("bool", (8,)), ("bool", (8,))),
    "max_float64": binary("Max", ("float64", (8,)), ("float64", (8,)), ("float64", (8,))),
    "relu": unary("Relu"),
    "sigmoid": unary("Sigmoid"),
    "gelu": unary("Gelu", approximate="tanh"),
    "abs_int32": unary("Abs", "int32"),
    "neg_int8": unary("Neg", "int8"),
    "cast_float_to_int8": Case("Cast", (f32(9),), (i8(9),), {"to": 3}),
    "cast_int64_to_float": Case("Cast", (("int64", (9,)),), (f32(9),), {"to": 1}),
    "conv1d": conv(f32(1, 3, 9), f32(4, 3, 3), f32(1, 4, 7)),
    "conv_padded": conv(f32(1, 8, 6, 7), f32(5, 8, 3, 3), f32(1, 5, 6, 7), **PADS),
    "conv_dilated": conv(
        f32(1, 2, 9, 9), f32(3, 2, 3, 3), f32(1, 3, 7, 7), dilations=(2, 2), **PADS
    ),
    "conv_groups": conv(f32(2, 4, 5, 5), f32(6, 2, 3, 3), f32(2, 6, 3, 3), group=2),
    "conv_depthwise": conv(f32(1, 8, 6, 6), f32(8, 1, 3, 3), f32(1, 8, 6, 6), group=8, **PADS),
    "conv_only_padding": conv(f32(1, 1, 1, 1), f32(2, 1, 3, 3), f32(1, 2, 1, 1), **PADS),
    "qconv": qconv(i8(1, 8, 6, 7), i8(5, 8, 3, 3), i8(1, 5, 6, 7), "exact", **PADS),
    "qconv_uint8": qconv(
        ("uint8", (1, 3, 6, 7)), ("uint8", (5, 3, 1, 1)), ("uint8", (1, 5, 6, 7)), "exact"
    ),
    "qconv_fixed": qconv(i8(1, 8, 6, 7), i8(5, 8, 3, 3), i8(1, 5, 6, 7), "fixed", **PADS),
    "qconv_depthwise_fixed": qconv(
        i8(1, 8, 6, 6), i8(8, 1, 3, 3), i8(1, 8, 4, 4), "fixed", group=8
    ),
    "qadd": qadd("exact"),
    "qadd_fixed": qadd("fixed"),
    "max_pool": Case("MaxPool", (f32(1, 3, 8, 8),), (f32(1, 3, 4, 4),), POOL),
    "max_pool_int8": Case("MaxPool", (i8(1, 3, 8, 8),), (i8(1, 3, 4, 4),), POOL),
    "max_pool_places": Case(
        "MaxPool", (f32(1, 3, 8, 8),), (f32(1, 3, 4, 4), ("int64", (1, 3, 4, 4))), POOL
    ),
    "average_pool": Case("AveragePool", (f32(1, 3, 8, 8),), (f32(1, 3, 4, 4),), POOL),
    "global_average_pool": Case("GlobalAveragePool", (f32(1, 8, 5, 5),), (f32(1, 8, 1, 1),)),
    "softmax": Case("Softmax", (f32(3, 12),), (f32(3, 12),)),
    "softmax_inner_axis": Case("Softmax", (f32(3, 5, 4),), (f32(3, 5, 4),), {"axis": 1}),
    "gather": Case(
        "Gather", (f32(5, 8), ("int64", (3,))), (f32(3, 8),), values={}, activations=(0, 1)
    ),
    "cumsum": Case(
        "CumSum", (f32(3, 8), ("int64", ())), (f32(3, 8),), {"exclusive": 1}, values={1: (1,)}
    ),
    "concat": Case(
        "Concat", (f32(5, 8), f32(5, 3)), (f32(5, 11),), {"axis": 1}, activations=(0, 1)
    ),
    "transpose": Case("Transpose", (f32(2, 3, 4),), (f32(4, 2, 3),), {"perm": (2, 0, 1)}),
    "pad": Case(
        "Pad",
        (f32(1, 2, 3, 4), ("int64", (8,))),
        (f32(1, 2, 5, 7),),
        values={1: (0, 0, 1, 2, 0, 0, 1, 1)},
    ),
    "pad_of_what_is_cut_away": Case(
        "Pad",
        (f32(1, 2, 3, 4), ("int64", (8,))),
        (f32(2, 2, 3, 4),),
        values={1: (-1, 0, 0, 0, 2, 0, 0, 0)},
    ),
    "pad_in_place_of_an_axis": Case(
        "Pad",
        (f32(3, 4), ("int64", (4,))),
        (f32(3, 5),),
        values={1: (0, -4, 0, 5)},
    ),
    "matmul": Case("MatMul", (f32(2, 3, 4), f32(4, 5)), (f32(2, 3, 5),)),
    "argmax": Case("ArgMax", (f32(3, 9),), (("int64", (3, 1)),), {"axis": 1}),
    "reduce_max_inner_axis": Case(
        "ReduceMax",
        (f32(3, 3, 3, 3), ("int64", (1,))),
        (f32(3, 1, 3, 3),),
        values={1: (1,)},
        activations=(0,),
    ),
    "reduce_sum_int32": Case(
        "ReduceSum",
        (("int32", (3, 400)), ("int64", (1,))),
        (("int32", (3, 1)),),
        values={1: (1,)},
    ),
    "quantize": Case("QuantizeLinear", (f32(3, 7), F4, Q1), (i8(3, 7),)),
    "dequantize": Case("DequantizeLinear", (i8(3, 7), F4, Q1), (f32(3, 7),)),
}


@dataclass(frozen=True)
class Subject:
    """A case made ready: its instance, the numbers it is given, and its function."""

    instance: Instance
    arrays: Mapping[str, Array]
    orders: Orders
    text: KernelText


def any_convolution(number: int) -> Case:
    """Return a convolution of some shape: groups, strides, dilations, pads, odd extents."""
    random = np.random.default_rng(number)

    def some(low: int, high: int, count: int = 2) -> tuple[int, ...]:
        return tuple(int(n) for n in random.integers(low, high, count, endpoint=True))

    group, each, per = some(1, 3, 3)
    if number % 4 == 0:  # depthwise
        group, each, per = group * 3, 1, 1
    elif number % 4 == 1:
        group, each, per = 1, each * 4, per * 5
    kernel, stride, dilation = some(1, 3), some(1, 2), some(1, 2)
    before, after = some(0, 2), some(0, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    extent = [r + n for r, n in zip(reach, some(0, 9), strict=True)]
    padded = [x + a + b for x, a, b in zip(extent, before, after, strict=True)]
    size = [(p - r) // s + 1 for p, r, s in zip(padded, reach, stride, strict=True)]
    attributes: dict[str, Attribute] = {
        "group": group,
        "strides": stride,
        "dilations": dilation,
        "pads": (*before, *after),
    }
    m = group * per
    shapes = (1, group * each, *extent), (m, each, *kernel), (1, m, *size)
    x, w, y = (i8(*shape) if number % 2 == 0 else f32(*shape) for shape in shapes)
    if number % 2 == 0:
        return qconv(x, w, y, "fixed" if number % 3 else "exact", **attributes)
    return conv(x, w, y, **attributes)


CASES |= {f"convolution_{number}": any_convolution(number) for number in range(24)}


@cache
def book() -> RuleBook:
    return load_rules([ROOT])


def instance_of(case: Case) -> Instance:
    names = [f"i{n}" for n in range(len(case.inputs))]
    results = [f"r{n}" for n in range(len(case.outputs))]
    tensors = [
        Tensor(n, d, s)
        for n, (d, s) in zip([*names, *results], [*case.inputs, *case.outputs], strict=True)
    ]
    op = Op(
        "/node",
        case.kind,
        tuple(names),
        tuple(results),
        tuple(case.attributes.items()),
        case.domain,
        13 if case.domain else 21,
    )
    activations = tuple(names[n] for n in case.activations)
    graph = Graph(
        "case",
        activations,
        tuple(results),
        tuple(tensors),
        (op,),
        tuple(n for n in names if n not in activations),
        tuple(Value(names[n], case.inputs[n][1], v) for n, v in case.values.items()),
        tuple(Fact("all_zero", (names[n],)) for n in case.zero),
    )
    return match(op, graph, book(), Wish(rounding=case.rounding))


def numbers(case: Case, instance: Instance) -> dict[str, Array]:
    """Return numbers for each input; those of floats that are constant scalars are small scales."""
    random = np.random.default_rng(len(case.kind))
    found: dict[str, Array] = {}
    for operand in instance.operands:
        if operand.role != "input":
            continue
        position = int(operand.tensor[1:])
        is_constant = position not in case.activations
        if position in case.zero:
            found[operand.name] = np.zeros(operand.shape, operand.dtype)
        elif operand.dtype == "bool":
            found[operand.name] = random.integers(0, 2, operand.shape).astype(np.bool_)
        elif operand.dtype in ("float32", "float64"):
            is_scale = is_constant and len(operand.shape) < 2 and case.kind != "Conv"
            values = random.uniform(0.01, 0.02, operand.shape) if is_scale else None
            drawn = random.normal(0, 3, operand.shape) if values is None else values
            found[operand.name] = np.asarray(drawn).astype(operand.dtype)
        elif case.kind == "Gather":
            found[operand.name] = np.array([-1, 3, 0], operand.dtype)
        else:
            limits = np.iinfo(operand.dtype)
            low, high = limits.min, limits.max
            if operand.dtype == "int32" and case.kind == "QLinearConv":
                low, high = -5000, 5000
            found[operand.name] = np.asarray(
                random.integers(low, high, operand.shape, operand.dtype, endpoint=True)
            )
    return {**found, **make(instance, found)}


FORMS: Mapping[str, tuple[bool, Registers | None]] = {
    "": (False, None),
    "_packed": (True, None),
    "_blocked": (True, Registers(integers=28, floats=28)),
    "_few": (False, Registers(integers=11, floats=11)),
    "_vectors": (True, Registers(integers=12, floats=14, lanes=4)),
}
"""How a kernel is printed: whether in the layout that its rule prefers, and in which blocks."""


@cache
def subjects() -> Mapping[str, Subject]:
    """Return each case in all forms."""
    found: dict[str, Subject] = {}
    for name, case in CASES.items():
        instance = instance_of(case)
        arrays = numbers(case, instance)
        preferred = {o.name: o.order for o in instance.operands if o.order}
        constants = frozenset(
            o.name
            for o in instance.operands
            if o.role == "input" and int(o.tensor[1:]) not in case.activations
        )
        for suffix, (is_packed, registers) in FORMS.items():
            orders = preferred if is_packed else {}
            text = render_kernel(
                instance,
                name + suffix,
                orders,
                restrict=frozenset(o.name for o in instance.operands) if suffix else frozenset(),
                constants=constants,
                environment=ENVIRONMENT,
                registers=registers,
            )
            found[name + suffix] = Subject(instance, arrays, orders, text)
    return found


@pytest.fixture(scope="module")
def results(call_in_c: Calls) -> Mapping[str, Mapping[str, Array]]:
    printed = [(s.text, s.instance, s.arrays, s.orders) for s in subjects().values()]
    return dict(zip(subjects(), call_in_c(printed), strict=True))


@pytest.mark.parametrize("suffix", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_the_c_of_a_rule_computes_what_numpy_does(
    results: Mapping[str, Mapping[str, Array]], name: str, suffix: str
) -> None:
    subject = subjects()[name + suffix]
    found = results[name + suffix]

    expected = interpret(subject.instance, subject.arrays)
    assert found.keys() == expected.keys()
    for operand, array in expected.items():
        if array.dtype.kind == "f":
            close = np.allclose(found[operand].astype(float), array.astype(float), 2e-5, 2e-5)
            assert close, operand
        else:
            np.testing.assert_array_equal(found[operand], array)


@pytest.mark.parametrize("name", CASES)
def test_blocks_change_no_bit(results: Mapping[str, Mapping[str, Array]], name: str) -> None:
    plain = results[f"{name}_packed"]

    for form in ("_blocked", "_vectors"):
        found = {k: v.tobytes() for k, v in results[name + form].items()}
        assert found == {k: v.tobytes() for k, v in plain.items()}, form


@pytest.mark.parametrize(
    "compiler",
    [
        ["gcc", "-O0"],
        ["gcc", "-O2", "-funsigned-char"],
        ["gcc", "-Os", "-fshort-enums"],
        ["clang-14", "-O1"],
    ],
    ids=" ".join,
)
def test_no_kernel_and_no_helper_has_a_warning(
    tmp_path: Path, compile_strictly: Compile, compiler: Sequence[str]
) -> None:
    helpers = helper_names(ENVIRONMENT)
    callable_ = helpers_of(ENVIRONMENT, [" ".join(helpers)])
    kernels = [s.text.text for s in subjects().values()]
    code = "\n".join([HEADER, *(helper_text(ENVIRONMENT, h) for h in callable_), *kernels])
    functions = functions_of(callable_)
    pointers = "".join(f"    (void){name};\n" for name in [*functions, *subjects()])
    code += f"\nvoid use(void);\nvoid use(void)\n{{\n{pointers}}}\n"

    compile_strictly(tmp_path, code, [*compiler, "-c", "-o", "kernels.o"])


def test_clang_format_changes_nothing(tmp_path: Path, source: Source, formatted: Formatted) -> None:
    helpers = [helper_text(ENVIRONMENT, name) for name in helper_names(ENVIRONMENT)]
    code = "\n".join([source([s.text for s in subjects().values()]), *helpers])
    (tmp_path / "kernels.c").write_text(code, encoding="ascii")

    assert formatted(tmp_path / "kernels.c") == code


def test_no_line_holds_what_a_reader_would_strike_out(source: Source) -> None:
    for line in source([s.text for s in subjects().values()]).splitlines():
        assert not re.search(r"\* 1\b(?!\.)|\+ 0\b(?!\.)|- 0\b(?!\.)|\b0 \+", line), line


def test_the_text_does_not_depend_on_the_names_of_the_model() -> None:
    instance = instance_of(CASES["conv_padded"])

    texts = {
        render_kernel(
            other, "k", {}, restrict=frozenset(), constants=frozenset(), environment=ENVIRONMENT
        ).text
        for other in (instance, replace(instance, ops=("another",)))
    }

    assert len(texts) == 1
