"""Hand-written kernels against the nest that they stand for, bit for bit, on random shapes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from dlbuild.emit.handwritten import is_one_run, render
from dlbuild.emit.helpers import helper_text, helpers_of
from dlbuild.emit.kernel import KernelText
from dlbuild.ir.graph import Attribute, Fact, Graph, Op, Tensor
from dlbuild.ir.target import Rounding
from dlbuild.ir.weights import Array
from dlbuild.rulebook.handwritten import obstacle, with_kernel, without_kernel
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.interpret import interpret, make
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import Wish, match
from dlbuild.rulebook.rows import Part, Rows, row_kernel, rows_of
from dlbuild.stages.forms import POINTS
from tests.run.conftest import (
    ENVIRONMENT,
    HEADER,
    Calls,
    Compile,
    Formatted,
    Orders,
    Printed,
    Source,
    functions_of,
    needless,
)

ROOT = Path(__file__).parents[2]
CORTEX_M4 = ("--target=arm-none-eabi", "--sysroot=/usr/lib/arm-none-eabi", "-mcpu=cortex-m4")


@dataclass(frozen=True)
class Conv:
    """A convolution: channels, extents, output channels, and its attributes."""

    c: int
    h: int
    w: int
    m: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    group: int = 1
    n: int = 1

    @property
    def out(self) -> tuple[int, int]:
        """Extents of the result."""
        sizes = zip((self.h, self.w), self.kernel, self.strides, self.dilations, strict=True)
        return tuple(  # type: ignore[return-value] # two of them
            (x + self.pads[n] + self.pads[n + 2] - (k - 1) * d - 1) // s + 1
            for n, (x, k, s, d) in enumerate(sizes)
        )


CONVS = {
    "pointwise": Conv(8, 5, 7, 6),
    "pointwise_of_few": Conv(4, 1, 2, 2),
    "pointwise_of_three": Conv(12, 1, 3, 4),
    "pointwise_deep": Conv(1100, 2, 2, 4),
    "pointwise_by_steps": Conv(8, 5, 6, 4, strides=(2, 2)),
    "square": Conv(4, 6, 7, 6, (3, 3), pads=(1, 1, 1, 1)),
    "square_by_steps": Conv(8, 7, 6, 4, (3, 3), (2, 2), (0, 0, 1, 1)),
    "square_of_three_channels": Conv(3, 7, 9, 8, (3, 3), (2, 2), (0, 0, 1, 1)),
    "square_deep": Conv(64, 4, 4, 2, (3, 3), pads=(1, 1, 1, 1)),
    "tall": Conv(1, 13, 6, 4, (10, 4), (2, 2), (4, 1, 5, 1)),
    "spread": Conv(4, 9, 9, 4, (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    "spread_of_two_channels": Conv(2, 9, 8, 4, (3, 2), dilations=(3, 2), pads=(1, 0, 0, 1)),
    "wider_than_the_map": Conv(4, 2, 2, 4, (5, 5), pads=(2, 2, 2, 2)),
    "line": Conv(8, 9, 1, 4, (3, 1), pads=(1, 0, 1, 0)),
    "depthwise": Conv(8, 5, 6, 8, (3, 3), pads=(1, 1, 1, 1), group=8),
    "depthwise_by_steps": Conv(4, 7, 8, 4, (3, 3), (2, 2), (0, 0, 1, 1), group=4),
    "depthwise_inside": Conv(12, 6, 5, 12, (3, 2), group=12),
    "depthwise_spread": Conv(4, 9, 9, 4, (3, 3), (1, 2), (2, 1, 2, 1), (2, 2), group=4),
    "depthwise_line": Conv(8, 20, 1, 8, (5, 1), group=8),
    "depthwise_line_padded": Conv(8, 9, 1, 8, (4, 1), (2, 1), (2, 0, 1, 0), group=8),
    "flat": Conv(4, 5, 8, 4, (1, 3), (2, 1), (0, 1, 0, 1)),
    "depthwise_flat": Conv(8, 5, 8, 8, (1, 3), (2, 2), (0, 1, 0, 1), group=8),
    "depthwise_wider": Conv(4, 2, 3, 4, (5, 5), pads=(2, 2, 2, 2), group=4),
    "deep_many": Conv(8, 11, 12, 8, (7, 7), pads=(3, 3, 3, 3), group=8),
    "deep_many_by_steps": Conv(4, 15, 12, 4, (5, 7), (2, 2), (4, 3, 3, 2), (2, 1), 4),
    "deep_many_in_pieces": Conv(4, 8, 37, 4, (7, 7), pads=(3, 3, 3, 3), group=4),
    "deep_in_pieces": Conv(4, 7, 21, 4, (3, 5), pads=(1, 4, 1, 0), group=4),
    "deep_in_pieces_inside": Conv(8, 6, 26, 8, (5, 5), dilations=(1, 2), group=8),
    "deep_many_high": Conv(4, 9, 8, 4, (7, 5), (1, 1), (3, 0, 3, 0), group=4),
    "deep_many_inside": Conv(4, 9, 9, 4, (6, 6), group=4),
}
WIDE = {  # for kernels that take 16 channels at once
    "pointwise_wide": Conv(7, 5, 7, 37),
    "square_wide": Conv(3, 7, 6, 17, (3, 3), (2, 1), (1, 0, 0, 1)),
    "spread_wide": Conv(5, 9, 9, 32, (2, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    "depthwise_wide": Conv(32, 5, 6, 32, (3, 3), pads=(1, 1, 1, 1), group=32),
    "deep_wide_many": Conv(16, 9, 8, 16, (7, 7), pads=(3, 3, 3, 3), group=16),
    "deep_wide_by_steps": Conv(16, 8, 7, 16, (2, 4), (2, 3), (1, 0, 0, 2), (2, 1), 16),
}
COLUMNS = {  # whose rows are of one point
    "column": Conv(8, 8, 1, 6),
    "column_of_three_channels": Conv(3, 9, 1, 8),
    "column_by_steps": Conv(4, 20, 1, 6, (3, 1), (2, 1), (1, 0, 0, 0)),
    "column_of_skipped": Conv(8, 10, 1, 4, (1, 1), (3, 1)),
    "column_spread": Conv(2, 14, 1, 4, (5, 1), pads=(3, 0, 1, 0), dilations=(2, 1)),
    "column_of_lines": Conv(4, 9, 3, 4, (3, 3), pads=(1, 0, 1, 0)),
    "deep_column": Conv(20, 17, 1, 20, (5, 1), group=20),
    "deep_column_of_four": Conv(4, 9, 1, 4, (4, 1), pads=(2, 0, 1, 0), group=4),
    "deep_column_padded_below": Conv(8, 9, 1, 8, (3, 1), pads=(0, 0, 1, 0), group=8),
    "deep_column_by_steps": Conv(16, 20, 1, 16, (4, 1), (2, 1), (2, 0, 1, 0), (2, 1), 16),
    "deep_column_of_points": Conv(8, 7, 1, 8, group=8),
    "deep_column_of_many": Conv(8, 15, 3, 8, (12, 3), (2, 1), (4, 0, 3, 0), group=8),
    "deep_column_of_lines": Conv(8, 11, 3, 8, (3, 3), (2, 1), (1, 0, 1, 0), group=8),
}
DENSE = {
    "dense_by_four": (1, 24, 8),
    "dense_by_two": (1, 64, 10),
    "dense_of_many_rows": (3, 16, 4),
    "dense_uneven": (2, 13, 4),
    "dense_uneven_row": (1, 7, 6),
    "dense_deep": (1, 1030, 4),
}
BATCHES = {  # of several samples
    "batch_flat": Conv(8, 5, 7, 6, n=3),
    "batch_square": Conv(4, 6, 7, 6, (3, 3), pads=(1, 1, 1, 1), n=2),
    "batch_steps": Conv(3, 7, 9, 8, (3, 3), (2, 2), (0, 0, 1, 1), n=4),
    "batch_column": Conv(8, 8, 1, 6, (3, 1), n=3),
    "batch_points": Conv(12, 1, 1, 4, n=5),
    "batch_deep": Conv(8, 5, 6, 8, (3, 3), pads=(1, 1, 1, 1), group=8, n=3),
    "batch_line": Conv(8, 9, 1, 8, (4, 1), (2, 1), (2, 0, 1, 0), group=8, n=2),
    "batch_wide": Conv(3, 7, 6, 17, (3, 3), (2, 1), (1, 0, 0, 1), n=2),
    "batch_deeper": Conv(32, 5, 6, 32, (3, 3), pads=(1, 1, 1, 1), group=32, n=2),
}
ROUNDINGS: tuple[Rounding, ...] = ("exact", "fixed")
CORES = {"dsp": frozenset({"dsp"}), "mve": frozenset({"dsp", "mve"})}
PC = "x86"
FEATURES = {**CORES, PC: frozenset({PC})}
NAMES = (*CONVS, *DENSE)
OF_PC = (
    *WIDE,
    *(name for name, case in BATCHES.items() if case.group in {1, 32}),
    *(name for name, case in CONVS.items() if case.group == 1),
)
OF_CORES: list[tuple[str, Rounding, str]] = [
    (name, rounding, core) for name in NAMES for rounding in ROUNDINGS for core in CORES
]
OF_CORES += [(name, "fixed", core) for name in COLUMNS for core in CORES]
OF_CORES += [
    (name, "fixed", core)
    for name, case in BATCHES.items()
    for core in CORES
    if case.m % 2 == 0 or core == "mve"
]
EVERY = [*OF_CORES, *((name, rounding, PC) for name in OF_PC for rounding in ROUNDINGS)]


@cache
def book() -> RuleBook:
    return load_rules([ROOT])


def conv_graph(case: Conv) -> Graph:
    """Return a graph of one QLinearConv."""
    w = (case.m, case.c // case.group, *case.kernel)
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "x": ("int8", (case.n, case.c, case.h, case.w)),
        "xs": ("float32", ()),
        "xz": ("int8", ()),
        "w": ("int8", w),
        "ws": ("float32", (case.m,)),
        "wz": ("int8", (case.m,)),
        "ys": ("float32", ()),
        "yz": ("int8", ()),
        "b": ("int32", (case.m,)),
        "y": ("int8", (case.n, case.m, *case.out)),
    }
    attributes: tuple[tuple[str, Attribute], ...] = (
        ("strides", case.strides),
        ("pads", case.pads),
        ("dilations", case.dilations),
        ("group", case.group),
    )
    return graph_of("QLinearConv", "", shapes, attributes)


def dense_graph(case: tuple[int, int, int]) -> Graph:
    """Return a graph of one QGemm."""
    m, k, n = case
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "a": ("int8", (m, k)),
        "as": ("float32", ()),
        "az": ("int8", ()),
        "w": ("int8", (n, k)),
        "ws": ("float32", (n,)),
        "wz": ("int8", (n,)),
        "c": ("int32", (n,)),
        "ys": ("float32", ()),
        "yz": ("int8", ()),
        "y": ("int8", (m, n)),
    }
    return graph_of("QGemm", "com.microsoft", shapes, (("transB", 1),))


def graph_of(
    kind: str,
    domain: str,
    shapes: Mapping[str, tuple[str, tuple[int, ...]]],
    attributes: tuple[tuple[str, Attribute], ...],
) -> Graph:
    """Return a graph of one operator: the first tensor is its input, the last its output."""
    names = tuple(shapes)
    tensors = tuple(Tensor(name, dtype, shape) for name, (dtype, shape) in shapes.items())
    op = Op("node", kind, names[:-1], names[-1:], attributes, domain, 13)
    facts = (Fact("all_zero", ("wz",)), Fact("narrow", ("w",)))
    return Graph("case", names[:1], names[-1:], tensors, (op,), names[1:-1], (), facts)


def numbers(instance: Instance, seed: int) -> dict[str, Array]:
    """Return numbers for each input, with the extremes that are allowed among them."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    kinds = {o.name for o in instance.operands}
    for operand in instance.operands:
        if operand.role != "input":
            continue
        if operand.tensor == "ws":  # results spread over the range, the first channel's do not fit
            taps = prod(instance.operand("w" if "w" in kinds else "b").shape[1:])
            drawn: Array = random.uniform(0.002, 0.01, operand.shape) / taps**0.5
            drawn[0] = 0.7
        elif operand.dtype == "float32":
            drawn = random.uniform(0.5, 0.9, operand.shape)
        elif operand.tensor == "wz":
            drawn = np.zeros(operand.shape)
        elif operand.dtype == "int32":
            drawn = random.integers(-(2**13), 2**13, operand.shape)
        else:
            low = -127 if operand.tensor == "w" else -128
            drawn = random.integers(low, 127, operand.shape, endpoint=True)
            drawn = np.where(random.random(operand.shape) < 0.2, low, drawn)
        found[operand.name] = np.asarray(drawn).astype(operand.dtype)
    return found


@cache
def instance_of(name: str, rounding: Rounding, core: str) -> Instance:
    """Return the matched operator of a case, as a core with those instructions has it."""
    convs = CONVS | WIDE | COLUMNS | BATCHES
    graph = conv_graph(convs[name]) if name in convs else dense_graph(DENSE[name])
    instance = match(graph.ops[0], graph, book(), Wish(FEATURES[core], rounding))
    assert instance.handwritten is not None, name
    return instance


def printed(
    name: str, rounding: Rounding, core: str, form: int = 0, *, is_in_planes: bool = False
) -> Printed:
    """Return the function of a case in a form, its instance, its numbers and its layouts.

    is_in_planes: it writes one channel after the other, not one point.
    """
    plain = instance_of(name, rounding, core)
    orders = {o.name: o.order for o in plain.operands if o.order}
    if is_in_planes:
        del orders["y"]
    assert not obstacle(plain, orders, frozenset({"y"}))
    instance = with_kernel(plain, form)
    constants = frozenset(o.name for o in instance.operands if o.tensor not in ("x", "a", "y"))
    assert is_one_run(instance, orders, constants)
    arrays = numbers(instance, len(name))
    arrays |= make(instance, arrays)
    text = render(
        instance,
        f"{name}_{rounding}_{core}{form}",
        orders,
        restrict=frozenset(o.name for o in instance.operands),
        constants=constants - {o.name for o in instance.operands if o.role == "scratch"},
        environment=ENVIRONMENT,
    )
    return text, instance, arrays, orders


def everything() -> list[Printed]:
    """Return every case in each rounding for each core."""
    return [printed(*case) for case in EVERY]


@pytest.fixture(scope="module")
def results(call_in_c: Calls) -> Mapping[tuple[str, Rounding, str], dict[str, Array]]:
    return dict(zip(EVERY, call_in_c(everything()), strict=True))


@pytest.mark.parametrize(("name", "rounding", "core"), EVERY)
def test_a_hand_written_kernel_computes_what_the_nest_means(
    results: Mapping[tuple[str, Rounding, str], dict[str, Array]],
    name: str,
    rounding: Rounding,
    core: str,
) -> None:
    _, instance, arrays, _ = printed(name, rounding, core)

    expected = interpret(without_kernel(instance), arrays)

    np.testing.assert_array_equal(results[name, rounding, core]["y"], expected["y"])
    assert len(np.unique(expected["y"])) > 1 or expected["y"].size == 1


def slower_forms() -> list[tuple[str, Rounding, str, int]]:
    """Return each case with one rounding in each form of its kernel but the first."""
    found: list[tuple[str, Rounding, str, int]] = []
    for name, rounding, core in EVERY:
        kernel = instance_of(name, rounding, core).handwritten
        assert kernel is not None
        if rounding == "fixed":
            found += [(name, rounding, core, form) for form in range(1, len(kernel.forms))]
    return found


def test_whole_kernels_compute_the_same_in_each_form(call_in_c: Calls) -> None:
    cases = slower_forms()
    assert {name for name, *_ in cases} >= {
        "square_deep",
        "wider_than_the_map",
        "pointwise",
        "flat",
    }
    results = call_in_c([printed(*case) for case in cases], QUICK)

    for case, result in zip(cases, results, strict=True):
        np.testing.assert_array_equal(result["y"], meant(case[0], case[2]), err_msg=str(case))


def test_hand_written_kernels_write_planes_as_well(call_in_c: Calls) -> None:
    cases = [case for case in EVERY if case[1] == "fixed" and case[0] not in DENSE]

    results = call_in_c([printed(*case, is_in_planes=True) for case in cases], QUICK)

    for case, result in zip(cases, results, strict=True):
        np.testing.assert_array_equal(result["y"], meant(case[0], case[2]), err_msg=str(case))


VECTORS = {
    "none": ["-O0"],
    "avx2": ["-O2", "-mavx2"],
    "avx512bw": ["-O2", "-mavx512f", "-mavx512bw"],
    "avx512_vnni": ["-O2", "-mavx512f", "-mavx512bw", "-mavx512vnni"],
}


@pytest.mark.parametrize("vectors", VECTORS)
def test_kernels_of_a_pc_compute_the_same_with_each_kind_of_vectors(
    call_in_c: Calls, vectors: str
) -> None:
    if vectors != "none" and vectors not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"this processor has no {vectors}")
    cases = [case for case in EVERY if case[2] == PC]

    results = call_in_c([printed(*case) for case in cases], VECTORS[vectors])

    for case, result in zip(cases, results, strict=True):
        _, instance, arrays, _ = printed(*case)
        expected = interpret(without_kernel(instance), arrays)
        np.testing.assert_array_equal(result["y"], expected["y"], err_msg=str(case))


@pytest.mark.parametrize(
    "compiler",
    [
        ["gcc", "-O0"],
        ["gcc", "-O2", "-funsigned-char"],
        ["gcc", "-O3", "-mavx512f", "-mavx512bw", "-mavx512vnni"],
        ["gcc", "-O3", "-mavx2"],
        ["clang-14", "-O1"],
        ["clang-14", "-O2", "-mavx512f", "-mavx512bw", "-mavx512vnni"],
        ["clang-14", "-O2", *CORTEX_M4],
    ],
    ids=" ".join,
)
def test_no_hand_written_kernel_has_a_warning(
    tmp_path: Path, compile_strictly: Compile, compiler: Sequence[str]
) -> None:
    texts = [text for text, *_ in everything()]
    helpers = helpers_of(ENVIRONMENT, [t.text for t in texts])
    code = "\n".join([HEADER, *(helper_text(ENVIRONMENT, h) for h in helpers)])
    code += "\n".join(t.text for t in texts)
    kernels = re.findall(r"^static void (\w+)\(", code, re.MULTILINE)
    assert len(kernels) >= len(EVERY)
    used = [*functions_of(helpers), *kernels]
    pointers = "".join(f"    (void){name};\n" for name in used)
    code += f"\nvoid use(void);\nvoid use(void)\n{{\n{pointers}}}\n"

    compile_strictly(tmp_path, code, [*compiler, "-c", "-o", "kernels.o"])


@cache
def of_each_kind() -> Sequence[Printed]:
    """Return every case, and some that compute rows, several of them or parts."""
    rows = [kernel for name, core in IN_ROWS for kernel in rows_printed(name, core)[::3]]
    rows += [k for name, core in STACKS for *_, k in stacks_printed(name, core)[:2]]
    rows += [kernel for name in ROWS for *_, kernel in parts_printed(name)[::4]]
    return (*everything(), *rows)


def test_clang_format_leaves_hand_written_kernels_as_they_are(
    tmp_path: Path, source: Source, formatted: Formatted
) -> None:
    code = source([text for text, *_ in of_each_kind()])
    (tmp_path / "kernels.c").write_text(code, encoding="ascii")

    assert formatted(tmp_path / "kernels.c") == code


def test_hand_written_kernels_say_nothing_that_is_not_needed() -> None:
    faults = [fault for text, *_ in of_each_kind() for fault in needless(text.text)]

    assert not faults


ROWS = (
    *(
        "pointwise",
        "pointwise_by_steps",
        "flat",
        "depthwise_flat",
        "square",
        "square_by_steps",
        "tall",
        "line",
    ),
    *("depthwise", "depthwise_by_steps", "depthwise_line_padded"),
)
QUICK = ["-O0"]  # of hundreds of functions
IN_ROWS = [(name, core) for name in ROWS for core in CORES]
IN_ROWS += [(name, PC) for name in (*ROWS, *WIDE) if name in OF_PC]
STACKS = [(name, core) for name in COLUMNS for core in CORES]
STACKS += [(name, PC) for name, case in COLUMNS.items() if case.group == 1 or case.m % 16 == 0]


@cache
def meant(name: str, core: str) -> Array:
    """Return what the nest of a case computes."""
    _, instance, arrays, _ = printed(name, "fixed", core)
    return interpret(without_kernel(instance), arrays)["y"]


def in_rows(
    plain: Instance, name: str, form: int = 0
) -> tuple[Instance, Rows, dict[str, Array], Orders]:
    """Return a case with its kernel in a form, its rows, its numbers and its layouts."""
    orders = {o.name: o.order for o in plain.operands if o.order}
    instance = with_kernel(plain, form)
    arrays = numbers(instance, len(name))
    arrays |= make(instance, arrays)
    constants = frozenset(o.tensor for o in instance.operands if o.tensor not in ("x", "y"))
    rows = rows_of(instance, orders, constants)
    assert rows is not None
    return instance, rows, arrays, orders


def row_text(instance: Instance, name: str, orders: Orders) -> KernelText:
    """Return the function of a row, or of several."""
    return render(
        instance,
        name,
        orders,
        restrict=frozenset(o.name for o in instance.operands),
        constants=frozenset(o.name for o in instance.operands if o.role == "input") - {"x"},
        environment=ENVIRONMENT,
    )


def rows_printed(name: str, core: str) -> list[Printed]:
    """Return the function of each row of a convolution, given a ring of the rows that it reads.

    In each form that its kernel has.
    """
    plain = instance_of(name, "fixed", core)
    assert plain.handwritten is not None
    forms = range(len(plain.handwritten.forms))
    return [printed for form in forms for printed in rows_in_form(name, core, plain, form)]


def rows_in_form(name: str, core: str, plain: Instance, form: int) -> list[Printed]:
    """Return the same of one form."""
    assert plain.handwritten is not None
    instance, rows, arrays, orders = in_rows(plain, name, form)
    assert rows.axis in plain.handwritten.rows
    (read,) = rows.reads
    _, channels, _, width = instance.operand("x").shape
    kept = read.high - read.low
    made = row_kernel(instance, rows, Part({"x": kept}))
    is_given = "x" in {pointer.operand for pointer in made.pointers}
    found: list[Printed] = []
    for row in sorted({0, rows.count // 2, rows.count - 1}):
        ring = np.full((1, channels, kept, width), 99)
        for source in range(read.first(row), read.end(row)):
            ring[:, :, 0 if is_given else source % kept] = arrays["x"][:, :, source]
        text = row_text(made.instance, f"{name}_{core}{form}_row{row}", orders)
        given = {**arrays, "x": ring.astype(np.int8), "row": np.asarray(row, np.int32)}
        found.append((text, made.instance, given, orders))
    return found


def test_rows_of_a_hand_written_kernel_are_those_of_the_nest(call_in_c: Calls) -> None:
    kernels = [(*case, kernel) for case in IN_ROWS for kernel in rows_printed(*case)]
    results = call_in_c([kernel for *_, kernel in kernels], QUICK)

    for (name, core, (_, _, arrays, _)), result in zip(kernels, results, strict=True):
        row = int(arrays["row"])
        expected = meant(name, core)
        np.testing.assert_array_equal(result["y"][:, :, 0], expected[:, :, row], name)


def parts_printed(name: str) -> list[tuple[int, tuple[int, int], Printed]]:
    """Return rows, columns [first, end) of them, and the functions that compute those alone.

    Of the input the columns that are read are there, in a ring of rows; or rows as they are
    brought, of all columns. In each form that its kernel has.
    """
    plain = instance_of(name, "fixed", "dsp")
    assert plain.handwritten is not None
    forms = range(len(plain.handwritten.forms))
    return [printed for form in forms for printed in parts_in_form(name, plain, form)]


def parts_in_form(
    name: str, plain: Instance, form: int
) -> list[tuple[int, tuple[int, int], Printed]]:
    """Return the same of one form."""
    instance, rows, arrays, orders = in_rows(plain, name, form)
    assert plain.handwritten is not None
    if rows.columns is None or rows.columns.axis not in plain.handwritten.columns:
        return []
    (read,), (across,) = rows.reads, rows.columns.reads
    _, channels, _, width = instance.operand("x").shape
    kept = read.high - read.low
    found: list[tuple[int, tuple[int, int], Printed]] = []
    for most, is_fetched in ((3, False), (2, True)):
        firsts = range(0, rows.columns.count, most)
        passes = [(first, min(first + most, rows.columns.count)) for first in firsts]
        reads = [(across.first(first), across.end(end - 1)) for first, end in passes]
        wide = max(end - first for first, end in reads)
        part = Part({"x": kept}, most, {"x": wide})
        if is_fetched:
            part = Part({}, most, {}, frozenset({"x"}))
        made = row_kernel(instance, rows, part)
        is_given = "x" in {pointer.operand for pointer in made.pointers}
        for row, number in product(sorted({0, rows.count - 1}), sorted({0, len(passes) - 1})):
            (first, end), (low, high) = passes[number], reads[number]
            top = read.first(row)
            ring = np.full((1, channels, kept, width if is_fetched else wide), 99)
            for source in range(top, read.end(row)):
                place = 0 if is_given else source - top if is_fetched else source % kept
                columns = slice(None) if is_fetched else slice(low, high)
                line = arrays["x"][:, :, source, columns]
                ring[:, :, place, : line.shape[-1]] = line
            text = row_text(made.instance, f"{name}{form}_{most}_{row}_{number}", orders)
            numbers_given = {
                "row": row,
                "x_top": top,
                "x_first3": low,
                "ow_first": first,
                "ow_count": end - first,
            }
            given = {**arrays, "x": ring.astype(np.int8)}
            given |= {key: np.asarray(n, np.int32) for key, n in numbers_given.items()}
            found.append((row, (first, end), (text, made.instance, given, orders)))
    return found


def test_parts_of_rows_of_a_hand_written_kernel_are_those_of_the_nest(call_in_c: Calls) -> None:
    kernels = [(name, *part) for name in ROWS for part in parts_printed(name)]
    results = call_in_c([kernel for *_, kernel in kernels], QUICK)

    assert len(kernels) > len(ROWS)
    for (name, row, (first, end), _), result in zip(kernels, results, strict=True):
        expected = meant(name, "dsp")
        got = result["y"][:, :, 0, first:end]
        np.testing.assert_array_equal(got, expected[:, :, row, first:end], name)


def stacks_printed(name: str, core: str) -> list[tuple[int, int, Printed]]:
    """Return rows [first, end) of one point each, and the functions that compute them at a time.

    The input is there as a whole, or in a ring.
    """
    plain = instance_of(name, "fixed", core)
    instance, rows, arrays, orders = in_rows(plain, name)
    assert rows.points == 1
    (read,) = rows.reads
    extent = instance.operand("x").shape[2]
    found: list[tuple[int, int, Printed]] = []
    kept = -(-(read.high - read.low + 2 * read.stride) // POINTS) * POINTS
    for is_ring in {False, kept < extent}:
        made = row_kernel(instance, rows, Part({"x": kept} if is_ring else {}, step=POINTS))
        is_given = "x" in {pointer.operand for pointer in made.pointers}
        starts = range(0, rows.count, POINTS)
        for row in sorted({starts[len(starts) // 2 if is_ring else 0], starts[-1]}):
            end = min(row + POINTS, rows.count)
            there = np.full_like(arrays["x"], 99)
            for source in range(read.first(row), read.end(end - 1)):
                place = (
                    source - row * read.stride
                    if is_given
                    else source % (kept if is_ring else extent)
                )
                there[:, :, place] = arrays["x"][:, :, source]
            text = row_text(made.instance, f"{name}_{core}_{'r' if is_ring else 'a'}{row}", orders)
            given = {**arrays, "x": there}
            given |= {"row": np.asarray(row, np.int32), "oh_count": np.asarray(end - row, np.int32)}
            found.append((row, end, (text, made.instance, given, orders)))
    return found


def test_rows_of_one_point_computed_at_a_time_are_those_of_the_nest(call_in_c: Calls) -> None:
    kernels = [(*case, *stack) for case in STACKS for stack in stacks_printed(*case)]
    results = call_in_c([kernel for *_, kernel in kernels], QUICK)

    for (name, core, row, end, _), result in zip(kernels, results, strict=True):
        expected = meant(name, core)
        np.testing.assert_array_equal(result["y"][:, :, : end - row], expected[:, :, row:end], name)
