"""Kernels that run through a near memory compute what they compute at once, against an honest port.

Each case is a model of one operator, rendered twice: with all tensors resident, and cut at random.
The port copies as late, as early or as randomly as it may, and stops the program if a window is
used before it has arrived, or overwritten before it has left.

DLBUILD_TILE_PROGRAMS: how many programs of 20 cases each; 10 by default, 100 at night.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any  # attributes of every type of ONNX

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.emit.ctypes import storage
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan, Tiling
from dlbuild.ir.weights import Array
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.compile import WARNINGS
from dlbuild.stages.audit import audit
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.hand_space import hand_spaces
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.spaces import space_of
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile
from dlbuild.stages.tile_space import TileSpace
from dlbuild.stages.tiling import near_of, planned

PORT = builtin_folder() / "templates" / "port"
CASES_PER_PROGRAM = 20
BOARD = Target(
    "board",
    memories=(
        Memory("near", 1 << 20, holds=("tiles",)),
        Memory("far", holds=("arena",)),
        Memory("flash", holds=("weights",)),
    ),
    cycles={"int8": 1.0, "float32": 1.0},
)
RESIDENT = Target("resident")


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


@dataclass(frozen=True)
class Case:
    """A model, and numbers that decide how each kernel is cut."""

    model: bytes
    options: Options
    draws: tuple[int, ...] = ()
    near_bytes: int = 0
    features: tuple[str, ...] = ()
    between_bytes: int = 0

    @property
    def target(self) -> Target:
        board = replace(BOARD, features=self.features)
        if not self.near_bytes:
            return board
        near = replace(BOARD.memories[0], size_bytes=self.near_bytes)
        size = self.between_bytes
        between = [Memory("between", size, holds=("tiles",))] if size else []
        return replace(board, memories=(near, *between, *BOARD.memories[1:]))


@dataclass(frozen=True)
class Plans:
    graph: Graph
    profile: Profile
    tiles: TilePlan
    weights: Mapping[str, Array]


def plans(case: Case, folder: Path) -> Plans:
    """Plan a case: by the search, or cut as its draws say."""
    path = folder / "case.onnx"
    path.write_bytes(case.model)
    parsed = parse(path, {}, book(), "case")
    kernels = profile(parsed.graph, book(), case.target, case.options)
    made = tile(parsed.graph, kernels, case.target, case.options, book())
    if case.draws:
        made = replace(
            made, tilings=tuple(cut(case, parsed.graph, kernels, t) for t in made.tilings)
        )
    audit_tiles(parsed.graph, kernels, made, case.target, case.options, book())
    return Plans(parsed.graph, kernels, made, parsed.weights)


def cut(case: Case, graph: Graph, kernels: Profile, found: Tiling) -> Tiling:
    """Return a tiling of a kernel whose sizes and order are drawn."""
    kernel = kernels.kernel[found.kernel]
    instance = instance_of(kernel, graph, book(), wish_of(case.target, case.options))
    draws = iter(case.draws * 8)
    if found.is_handwritten:
        ways = list(hand_spaces(kernel, instance, graph, kernels))
        space: TileSpace | None = ways[next(draws) % len(ways)]
    else:
        space = space_of(kernel, instance, graph, kernels)
    assert space is not None
    sizes = {a: s[next(draws) % len(s)] for a, s in zip(space.axes, space.sizes, strict=True)}
    split = len(space.axes) - space.reduce
    domain = sorted(space.axes[:split], key=lambda _: next(draws))
    loops = [
        (axis, sizes[axis])
        for axis in (*domain, *space.axes[split:])
        if sizes[axis] < space.nest.extent[axis]
    ]
    memory = BOARD.memories[0]
    near = near_of(memory, BOARD, case.options, kernel)
    cut = {axis for axis, _ in loops}
    doubled = frozenset(
        m.operand.name
        for m in space.moved
        if cut & {space.axes[n] for n in space.cuts(m)} and next(draws) % 4
    )
    made = planned(found.kernel, space, loops, near, doubled)
    return replace(made, memory=memory.name)


def write(case: Case, made: Plans, name: str, folder: Path, *, is_tiled: bool) -> None:
    """Write the C files of a case."""
    target = case.target if is_tiled else RESIDENT
    tiles = made.tiles if is_tiled else replace(made.tiles, tilings=(), residents=())
    if case.features and not is_tiled:
        made = replace(made, profile=profile(made.graph, book(), RESIDENT, case.options))
    order = schedule(made.graph, made.profile, tiles, target, case.options)
    audit(made.graph, made.profile, tiles, order, target, case.options)
    given = (book(), target, case.options, name)
    for file, text in render(made.graph, made.profile, tiles, order, *given).items():
        (folder / file).write_text(text, encoding="ascii")
    for file, content in tables(made.graph, made.weights, made.profile, *given, tiles).items():
        (folder / file).write_bytes(content)


def program(cases: Sequence[Plans]) -> str:
    """Return a program that runs each case whole and in tasks, and says how they differ."""
    lines = [f'#include "{side}{n}.h"' for n in range(len(cases)) for side in "ut"]
    lines += ['#include "dlb_port_honest.h"', "#include <math.h>", "#include <stdio.h>"]
    lines += ["#include <string.h>", "static unsigned seed = 7;"]
    lines += ["static int drawn(void) { seed = seed * 1664525u + 1013904223u; return seed >> 24; }"]
    body = []
    for number, case in enumerate(cases):
        graph = case.graph
        sources, (result,) = [graph.tensor[n] for n in graph.inputs], graph.outputs
        output = graph.tensor[result]
        ctype = storage(output.dtype)
        for at, source in enumerate(sources):
            lines.append(f"static {storage(source.dtype)} x{number}_{at}[{source.count}];")
            value = "drawn() - 128" if source.dtype == "int8" else "(float)(drawn() - 128) / 64.0F"
            value = "drawn()" if source.dtype == "uint8" else value
            body.append(
                f"    for (int i = 0; i < {source.count}; ++i)"
                f" x{number}_{at}[i] = ({storage(source.dtype)})({value});"
            )
        lines.append(f"static {ctype} u{number}_y[{output.count}], t{number}_y[{output.count}];")
        inputs = "".join(f"x{number}_{at}, " for at in range(len(sources)))
        is_summed = any(t.reduction for t in case.tiles.tilings) and "float" in output.dtype
        limit = "2e-4 + 2e-4 * fabs((double)u)" if is_summed else "0.0"
        traffic = sum(t.moved_bytes for t in case.tiles.tilings)
        body.append(f"""    u{number}_run({inputs}u{number}_y);
    for (unsigned mode = 0; mode < 3; ++mode) {{
        memset(t{number}_y, 0x55, sizeof t{number}_y);
        dlb_port_begin(mode, {number}u);
        t{number}_run({inputs}t{number}_y);
        const unsigned long long bytes = dlb_port_end();
        int bad = 0;
        for (int i = 0; i < {output.count}; ++i) {{
            const {ctype} u = u{number}_y[i], t = t{number}_y[i];
            bad += !(fabs((double)u - (double)t) <= {limit});
        }}
        if (bad || bytes != {traffic}u)
            printf("case {number} mode %u: %d of {output.count} differ, %llu of {traffic} B\\n",
                   mode, bad, bytes);
    }}""")
    return "\n".join([*lines, "int main(void)", "{", *body, "    return 0;", "}", ""])


def run(
    cases: Sequence[Case], folder: Path, *flags: str, made: Sequence[Plans] | None = None
) -> str:
    """Return what the program of the cases says: nothing, if all is well."""
    made = made or [plans(case, folder) for case in cases]
    for number, (case, plan) in enumerate(zip(cases, made, strict=True)):
        write(case, plan, f"u{number}", folder, is_tiled=False)
        write(case, plan, f"t{number}", folder, is_tiled=True)
        lines = (folder / f"t{number}.c").read_text().splitlines()
        assert [line for line in lines if len(line) > COLUMNS] == []
    (folder / "main.c").write_text(program(made), encoding="ascii")
    models = [
        f"{side}{n}{part}.c"
        for n in range(len(cases))
        for side in "ut"
        for part in ("", "_weights")
    ]
    strict = ["gcc", "-std=c99", "-O0", "-ffp-contract=off", *flags, f"-I{PORT}"]
    commands = [
        [*strict, *WARNINGS, "-Werror", "-c", *models],
        [
            *(*strict, "main.c", str(PORT / "dlb_port_honest.c")),
            *(str(Path(model).with_suffix(".o")) for model in models),
            *("-o", "program", "-lm"),
        ],
        ["./program"],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
    return done.stdout


def model(
    node: onnx.NodeProto,
    inputs: Mapping[str, Sequence[int]],
    output: Sequence[int],
    constants: Mapping[str, Array],
    dtype: int,
) -> bytes:
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info(n, dtype, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(node.output[0], dtype, output)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 8
    content: bytes = made.SerializeToString()
    return content


@dataclass(frozen=True)
class Shape:
    """A window operator: extents, channels, and its attributes."""

    extent: tuple[int, int]
    channels: int
    per_group: tuple[int, int]
    groups: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]

    @property
    def out(self) -> tuple[int, int]:
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        room = [self.extent[i] + self.pads[i] + self.pads[i + 2] - spans[i] for i in range(2)]
        return room[0] // self.strides[0] + 1, room[1] // self.strides[1] + 1

    @property
    def attributes(self) -> dict[str, Any]:
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}


@st.composite
def shapes(draw: st.DrawFn, *, is_pool: bool = False) -> Shape:
    kernel = draw(st.sampled_from([(1, 1), (3, 3), (1, 4), (10, 4), (7, 6), (2, 5)]))
    strides = draw(st.sampled_from([(1, 1), (2, 2), (1, 3), (4, 2)]))
    dilations = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 3)]))
    if is_pool:
        dilations = (1, 1)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = tuple(draw(st.integers(0, min(3, kernel[i % 2] - 1))) for i in range(4))
    least = [max(1, spans[i] - pads[i] - pads[i + 2]) for i in range(2)]
    extent = tuple(draw(st.integers(low, low + 12)) for low in least)
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    per_group = (draw(st.integers(1, 5)), draw(st.integers(1, 4)))
    if not is_pool and draw(st.booleans()) and groups > 1:
        per_group = (1, 1)
    (top, left, bottom, right), (height, width) = pads, extent
    return Shape(
        (height, width),
        per_group[0] * groups,
        per_group,
        groups,
        kernel,
        strides,
        dilations,
        (top, left, bottom, right),
    )


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def conv_model(shape: Shape, seed: int) -> bytes:
    m = shape.per_group[1] * shape.groups
    values = random(seed)
    constants = {
        "w": values.normal(0, 1, (m, shape.per_group[0], *shape.kernel)).astype(np.float32),
        "b": values.normal(0, 1, m).astype(np.float32),
    }
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=shape.groups, **shape.attributes)
    sizes = {"x": (1, shape.channels, *shape.extent)}
    return model(node, sizes, (1, m, *shape.out), constants, TensorProto.FLOAT)


def qconv_model(shape: Shape, seed: int) -> bytes:
    m = shape.per_group[1] * shape.groups
    values = random(seed)
    constants: dict[str, Array] = {
        "xs": np.array(0.05, np.float32),
        "xz": np.array(3, np.int8),
        "w": values.integers(-128, 128, (m, shape.per_group[0], *shape.kernel), np.int8),
        "ws": values.uniform(0.001, 0.02, m).astype(np.float32),
        "wz": np.zeros(m, np.int8),
        "ys": np.array(0.1, np.float32),
        "yz": np.array(-5, np.int8),
        "b": values.integers(-5000, 5000, m, np.int32),
    }
    node = helper.make_node(
        "QLinearConv", ["x", *constants], ["y"], group=shape.groups, **shape.attributes
    )
    sizes = {"x": (1, shape.channels, *shape.extent)}
    return model(node, sizes, (1, m, *shape.out), constants, TensorProto.INT8)


def pool_model(shape: Shape, kind: str) -> bytes:
    attributes = {k: v for k, v in shape.attributes.items() if k != "dilations"}
    node = helper.make_node(kind, ["x"], ["y"], kernel_shape=shape.kernel, **attributes)
    sizes = {"x": (1, shape.channels, *shape.extent)}
    return model(node, sizes, (1, shape.channels, *shape.out), {}, TensorProto.FLOAT)


def matmul_model(rows: int, inner: int, columns: int, seed: int) -> bytes:
    constants = {"w": random(seed).normal(0, 1, (inner, columns)).astype(np.float32)}
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model(node, {"x": (rows, inner)}, (rows, columns), constants, TensorProto.FLOAT)


def add_model(shape: Sequence[int]) -> bytes:
    node = helper.make_node("Add", ["a", "b"], ["y"])
    sizes = {"a": shape, "b": (1, *shape[1:2], *(1 for _ in shape[2:]))}
    return model(node, sizes, shape, {}, TensorProto.FLOAT)


def softmax_model(rows: int, columns: int) -> bytes:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    return model(node, {"x": (rows, columns)}, (rows, columns), {}, TensorProto.FLOAT)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    seed = draw(st.integers(0, 1000))
    sizes = st.integers(1, 17)
    kind = draw(
        st.sampled_from(
            ["conv", "qconv", "qconv", "MaxPool", "AveragePool", "matmul", "add", "softmax"]
        )
    )
    match kind:
        case "conv":
            content = conv_model(draw(shapes()), seed)
        case "qconv":
            content = qconv_model(draw(shapes()), seed)
        case "matmul":
            content = matmul_model(draw(sizes), draw(sizes), draw(sizes), seed)
        case "add":
            content = add_model([1, draw(sizes), draw(sizes), draw(sizes)])
        case "softmax":
            content = softmax_model(draw(sizes), draw(sizes))
        case _:
            content = pool_model(draw(shapes(is_pool=True)), kind)
    rounding = draw(st.sampled_from(["exact", "fixed"]))
    options = Options(requantize="fixed" if rounding == "fixed" else "exact")
    draws = draw(st.lists(st.integers(0, 97), min_size=8, max_size=8))
    return Case(content, options, tuple(draws))


@settings(
    max_examples=int(os.environ.get("DLBUILD_TILE_PROGRAMS", "10")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],  # a smaller case takes longer to find than to understand
)
@given(st.lists(cases(), min_size=CASES_PER_PROGRAM, max_size=CASES_PER_PROGRAM))
def test_tasks_compute_what_the_whole_kernel_computes(
    tmp_path_factory: pytest.TempPathFactory, drawn: Sequence[Case]
) -> None:
    assert run(drawn, tmp_path_factory.mktemp("tiles")) == ""


def small_conv(near_bytes: int) -> Case:
    shape = Shape((12, 9), 4, (4, 8), 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    return Case(qconv_model(shape, 3), Options(requantize="fixed"), near_bytes=near_bytes)


def tiled_c(folder: Path, case: Case) -> str:
    """Return the C of a case that is cut."""
    write(case, plans(case, folder), "t0", folder, is_tiled=True)
    return (folder / "t0.c").read_text()


def test_a_kernel_that_fits_is_one_task(tmp_path: Path) -> None:
    (found,) = plans(small_conv(8192), tmp_path).tiles.tilings

    assert (found.tasks, found.loops) == (1, ())
    assert all(buffer.copies == 1 for buffer in found.buffers)


def test_with_an_arena_of_the_callers_the_header_says_that_windows_are_shared(
    tmp_path: Path,
) -> None:
    case = replace(small_conv(600), options=Options(requantize="fixed", arena="caller"))
    write(case, plans(case, tmp_path), "t0", tmp_path, is_tiled=True)

    text = (tmp_path / "t0.h").read_text()

    assert "One run at a time, since all use the same bytes of near." in text
    assert "Reentrant" not in text


def test_the_addresses_of_a_cut_kernel_fit_a_line(tmp_path: Path) -> None:
    shape = Shape((18, 17), 6, (2, 1), 3, (7, 6), (1, 3), (2, 1), (2, 0, 2, 1))
    case = Case(qconv_model(shape, 13), Options(), (5, 52, 9, 48, 18, 16, 43, 14))

    text = tiled_c(tmp_path, case)

    assert "x_first2" in text
    assert max(map(len, text.splitlines())) <= COLUMNS


ONE_BUFFER, TWO_BUFFERS = 600, 900
"""Near memories in which the weights and the result of `small_conv` have one buffer, or two."""


COUNTING_PORT = r"""
#include "dlb_port.h"
#include "t0.h"
#include <stdio.h>
#include <string.h>
static unsigned left_under_way[32];
void dlb_copy_start(uint32_t channel, void *dst, const void *src, uint32_t bytes, uint32_t rows,
                    uint32_t dst_pitch, uint32_t src_pitch)
{
    (void)channel;
    for (uint32_t row = 0; row < rows; ++row) {
        memcpy((char *)dst + row * dst_pitch, (const char *)src + row * src_pitch, bytes);
    }
}
void dlb_copy_wait(uint32_t channel, uint32_t n_outstanding)
{
    left_under_way[channel] += n_outstanding > 0;
}
static int8_t x[432], y[864];
int main(void)
{
    t0_run(x, y);
    for (int channel = 0; channel < 32; ++channel) {
        printf("%u\n", left_under_way[channel]);
    }
    return 0;
}
"""


@pytest.mark.parametrize(("near_bytes", "is_double"), [(TWO_BUFFERS, True), (ONE_BUFFER, False)])
def test_what_the_next_task_needs_is_under_way_while_the_current_one_is_computed(
    tmp_path: Path, near_bytes: int, *, is_double: bool
) -> None:
    case = small_conv(near_bytes)
    (found,) = plans(case, tmp_path).tiles.tilings
    (weights,) = (buffer for buffer in found.buffers if buffer.operand == "w")
    assert weights.copies == 1 + is_double
    text = tiled_c(tmp_path, case)
    (channel,) = re.findall(r"COPY_W = (\d+)", text)
    (tmp_path / "main.c").write_text(COUNTING_PORT)
    command = ["gcc", "-std=c99", "main.c", "t0.c", "t0_weights.c", "-lm", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)

    done = subprocess.run(["./program"], cwd=tmp_path, check=True, capture_output=True, text=True)

    # Each task but the last computes while the weights of the next come, if they have room.
    due = found.tasks - 1 if is_double else 0
    assert found.tasks > 1
    assert int(done.stdout.split()[int(channel)]) == due


@pytest.mark.parametrize(
    ("near_bytes", "wait"),
    [
        (TWO_BUFFERS, "dlb_copy_wait(COPY_W, w_later);"),
        (ONE_BUFFER, "            dlb_copy_wait(COPY_W, 0U);"),
    ],
)
def test_a_missing_wait_is_caught(tmp_path: Path, near_bytes: int, wait: str) -> None:
    case = small_conv(near_bytes)

    assert said_of(changed(tiled_c(tmp_path, case), {wait: ""}), case, tmp_path) != ""


@pytest.mark.parametrize(
    ("near_bytes", "changes"),
    [
        (TWO_BUFFERS, {"y_now = 1 - y_now;": "", "COPY_Y, y_later": "COPY_Y, 9U"}),
        (ONE_BUFFER, {"        dlb_copy_wait(COPY_Y, 0U);": ""}),
    ],
)
def test_a_result_overwritten_before_it_has_left_is_caught(
    tmp_path: Path, near_bytes: int, changes: Mapping[str, str]
) -> None:
    case = small_conv(near_bytes)

    assert "dlb_port" in said_of(changed(tiled_c(tmp_path, case), changes), case, tmp_path)


def test_a_window_brought_into_the_one_in_use_is_caught(tmp_path: Path) -> None:
    case = small_conv(TWO_BUFFERS)
    broken = changed(tiled_c(tmp_path, case), {"w_next = 1 - w_now;": "w_next = w_now;"})

    assert said_of(broken, case, tmp_path) != ""


def changed(text: str, changes: Mapping[str, str]) -> str:
    """Return C with a fault in it."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def said_of(text: str, case: Case, folder: Path) -> str:
    """Return what the program of a case says if its C is another."""
    made = plans(case, folder)
    write(case, made, "u0", folder, is_tiled=False)
    (folder / "t0.c").write_text(text)
    (folder / "main.c").write_text(program([made]))
    files = [f"{name}.c" for name in ("main", "u0", "u0_weights", "t0", "t0_weights")]
    command = ["gcc", "-std=c99", f"-I{PORT}", *files, str(PORT / "dlb_port_honest.c"), "-lm"]
    subprocess.run([*command, "-o", "program"], cwd=folder, check=True, capture_output=True)
    done = subprocess.run(["./program"], cwd=folder, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def refusal(memories: Sequence[Memory], folder: Path) -> str:
    """Return the error with which these memories are refused."""
    graph = plans(small_conv(600), folder).graph
    kernels = profile(graph, book(), RESIDENT, Options())
    target = replace(BOARD, memories=tuple(memories))
    with pytest.raises(UserError) as caught:
        tile(graph, kernels, target, Options(), book())
    return str(caught.value)


def test_a_third_memory_that_holds_tiles_is_refused(tmp_path: Path) -> None:
    more = (Memory(name, 512, holds=("tiles",)) for name in ("tcm", "cache"))

    assert refusal((*more, *BOARD.memories), tmp_path) == (
        "case@board: error: memory 'near' is the third that holds tiles\n"
        "  why: what a kernel needs comes through one memory, or two, to the core\n"
        "  fix: leave tiles out of the 'holds' of 'near'"
    )


def test_a_memory_that_holds_tiles_and_the_arena_is_refused(tmp_path: Path) -> None:
    both = Memory("sram", 512, holds=("tiles", "arena"))

    assert refusal((both,), tmp_path) == (
        "case@board: error: memory 'sram' holds tiles and the arena\n"
        "  why: each would have to leave the other room\n"
        "  fix: state two memories, each with its size, in the place of 'sram'"
    )


def test_long_names_and_deep_loops_fit_the_lines(tmp_path: Path) -> None:
    # `run` looks at each line.
    values = random(5)
    constants = {"w": values.normal(0, 1, (6, 4, 3, 3)).astype(np.float32)}
    drawn = []
    for strides, dilations in (((2, 3), (1, 2)), ((1, 2), (1, 1))):
        spans = [2 * d + 1 for d in dilations]
        out = [(e - 1) * s + k for e, s, k in zip((5, 7), strides, spans, strict=True)]
        node = helper.make_node(
            "ConvTranspose", ["x", "w"], ["y"], strides=strides, dilations=dilations
        )
        content = model(node, {"x": (1, 6, 5, 7)}, (1, 4, *out), constants, TensorProto.FLOAT)
        pixels = Options(layout=(("x", "nhwc"), ("y", "nhwc")))
        drawn += [Case(content, o, near_bytes=400, between_bytes=1600) for o in (Options(), pixels)]

    assert run(drawn, tmp_path) == ""


@pytest.mark.parametrize("make", ["float", "int8"])
def test_partial_sums_are_computed_in_blocks(tmp_path: Path, make: str) -> None:
    # One sum at a time takes two to three times as long.
    shape = Shape((8, 8), 32, (32, 16), 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    content = conv_model(shape, 1) if make == "float" else qconv_model(shape, 1)
    size = 2400 if make == "float" else 1200
    case = Case(content, Options(requantize="fixed"), near_bytes=size)
    made = plans(case, tmp_path)
    assert all(tiling.reduction for tiling in made.tiles.tilings)

    assert run([case], tmp_path, "-O2", made=[made]) == ""

    source = (tmp_path / "t0.c").read_text()
    adding = source[source.index("* keeps acc_sums") :]
    assert "/* In blocks of " in adding[: adding.index("\n}\n")]
