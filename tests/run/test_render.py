"""The generated C of small models: exact text, every compiler, every option."""

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.compile import WARNINGS
from dlbuild.run.fragments import cmake_fragment, make_fragment
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile
from tests.conftest import Golden, Needs
from tests.run.conftest import Formatted

BOARD = Target(
    "board",
    memories=(Memory("sram", 65536, holds=("arena",)), Memory("flash", holds=("weights",))),
    features=("fpu",),
)
PORTS = sorted((builtin_folder() / "templates" / "port").glob("*.[ch]"))
STRICT = ("-std=c99", *WARNINGS, "-Werror")
COMPILERS = (
    ("gcc", "-O2"),
    ("gcc", "-O0", "-funsigned-char", "-fshort-enums"),
    ("gcc", "-Os", "-flto"),
    ("clang-14", "-O2"),
    ("arm-none-eabi-gcc", "-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard"),
)


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


def weight(shape: Sequence[int], seed: int) -> Array:
    return np.random.default_rng(seed).normal(0.0, 0.5, shape).astype(np.float32)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, Array],
    dtype: int = TensorProto.FLOAT,
) -> bytes:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, dtype, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, dtype, s) for n, s in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    content: bytes = model.SerializeToString()
    return content


def float_model(seed: int = 0) -> bytes:
    return network(
        [
            helper.make_node("Conv", ["image", "w", "b"], ["features"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["features"], ["active"], "relu"),
            helper.make_node("GlobalAveragePool", ["active"], ["pooled"], "pool"),
            helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
            helper.make_node("Gemm", ["flat", "fw", "fb"], ["logits"], "dense"),
            helper.make_node("Softmax", ["logits"], ["scores"], "softmax", axis=1),
        ],
        {"image": [1, 1, 8, 8]},
        {"scores": [1, 3]},
        {
            "w": weight([4, 1, 3, 3], seed),
            "b": weight([4], seed + 1),
            "fw": weight([4, 3], seed + 2),
            "fb": weight([3], seed + 3),
        },
    )


def int8_model(seed: int = 0) -> bytes:
    rng = np.random.default_rng(seed)

    def quantized(name: str) -> list[onnx.NodeProto]:
        names = [f"{name}_scale", f"{name}_zero"]
        return [
            helper.make_node("QuantizeLinear", [f"{name}_f", *names], [name], f"{name}_q"),
            helper.make_node("DequantizeLinear", [name, *names], [f"{name}_r"], f"{name}_dq"),
        ]

    def scales(name: str, scale: float, zero: int) -> dict[str, Array]:
        return {
            f"{name}_scale": np.array(scale * (1 + rng.random() / 8), np.float32),
            f"{name}_zero": np.array(zero, np.int8),
        }

    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["x_r"], "x_dq"),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_r"], "w_dq", axis=0),
        helper.make_node("DequantizeLinear", ["b", "b_scale"], ["b_r"], "b_dq", axis=0),
        helper.make_node("Conv", ["x_r", "w_r", "b_r"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["a_f"], "relu"),
        *quantized("a"),
        helper.make_node("GlobalAveragePool", ["a_r"], ["p_f"], "pool"),
        *quantized("p"),
        helper.make_node("Flatten", ["p_r"], ["s_f"], "flatten"),
        helper.make_node("QuantizeLinear", ["s_f", "p_scale", "p_zero"], ["scores"], "s_q"),
    ]
    w_scale = (0.01 + rng.random(4) / 100).astype(np.float32)
    constants: dict[str, Array] = {
        **scales("x", 0.02, 3),
        **scales("a", 0.05, -128),
        **scales("p", 0.04, -128),
        "w": rng.integers(-127, 128, (4, 1, 3, 3)).astype(np.int8),
        "w_scale": w_scale,
        "w_zero": np.zeros(4, np.int8),
        "b": rng.integers(-500, 500, 4).astype(np.int32),
    }
    constants["b_scale"] = w_scale * float(constants["x_scale"].item())
    return network(nodes, {"x": [1, 1, 8, 8]}, {"scores": [1, 4]}, constants, TensorProto.INT8)


@dataclass(frozen=True)
class Plan:
    graph: Graph
    weights: Mapping[str, Array]
    profile: Profile
    tiles: TilePlan
    schedule: Schedule
    target: Target
    options: Options

    def files(self, name: str = "net") -> dict[str, bytes]:
        texts = render(
            self.graph,
            self.profile,
            self.tiles,
            self.schedule,
            book(),
            self.target,
            self.options,
            name,
        )
        made = tables(
            self.graph, self.weights, self.profile, book(), self.target, self.options, name
        )
        return {**{file: text.encode() for file, text in texts.items()}, **made}


@cache
def plan(model: bytes, options: Options = Options()) -> Plan:  # noqa: B008 - frozen
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        source.write_bytes(model)
        parsed = parse(source, {}, book(), "net")
    kernels = profile(parsed.graph, book(), BOARD, options)
    tiles = tile(parsed.graph, kernels, BOARD, options)
    steps = schedule(parsed.graph, kernels, tiles, BOARD, options)
    return Plan(parsed.graph, parsed.weights, kernels, tiles, steps, BOARD, options)


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def texts_of(files: Mapping[str, bytes]) -> list[str]:
    """Return the names of the C files."""
    return [name for name in files if name.endswith((".c", ".h"))]


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    english = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        command, cwd=folder, env=english, capture_output=True, text=True, check=False
    )


def compiles(folder: Path, *files: str, flags: Sequence[str] = ()) -> str:
    """Return what gcc says; empty = nothing to say."""
    done = run("gcc", *STRICT, *flags, "-c", *files, folder=folder)
    return done.stderr


CASES: dict[str, tuple[Callable[[], bytes], Options]] = {
    "float": (float_model, Options()),
    "float_callers_arena": (float_model, Options(arena="caller", hook=True)),
    "int8": (int8_model, Options()),
    "int8_fixed": (int8_model, Options(requantize="fixed")),
    "int8_in_arena": (int8_model, Options(input="arena", output="arena", optimize="ram")),
    "int8_image": (int8_model, Options(weights="image")),
    "float_image": (float_model, Options(weights="image", arena="caller", hook=True)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_text_is_the_golden_one(case: str, golden: Golden) -> None:
    model, options = CASES[case]

    files = plan(model(), options).files()

    golden(case, {name: files[name].decode("ascii") for name in texts_of(files)})


@pytest.mark.reported("c05_warnings")
@pytest.mark.parametrize("compiler", COMPILERS, ids=lambda c: " ".join(c[:2]))
@pytest.mark.parametrize("case", CASES)
def test_no_compiler_warns(
    case: str, compiler: Sequence[str], tmp_path: Path, needs: Needs
) -> None:
    needs(compiler[0])
    model, options = CASES[case]
    folder = written(tmp_path / "c", plan(model(), options).files())

    done = run(*compiler, *STRICT, "-c", "net.c", "net_weights.c", folder=folder)

    assert done.stderr == ""


@pytest.mark.parametrize("case", CASES)
def test_clang_format_changes_nothing(case: str, tmp_path: Path, formatted: Formatted) -> None:
    model, options = CASES[case]
    files = plan(model(), options).files()
    folder = written(tmp_path / "c", files)

    for name in texts_of(files):
        text = formatted(folder / name)
        assert text == files[name].decode("ascii")
        assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("file", PORTS, ids=lambda file: file.name)
def test_clang_format_changes_no_port(file: Path, formatted: Formatted) -> None:
    text = formatted(file)
    assert text == file.read_text()
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("case", CASES)
def test_gcc_makes_no_copy_of_a_kernel_for_one_call(case: str, tmp_path: Path) -> None:
    """Gcc 12 leaves out calls of such copies: deeploy_tinyvit_demo at -O2, bench/models.py."""
    model, options = CASES[case]
    folder = written(tmp_path / "c", plan(model(), options).files())
    for flag in ("-O2", "-O3"):
        assert compiles(folder, "net.c", flags=[flag]) == ""
        names = run("nm", "net.o", folder=folder).stdout
        assert "net_run" in names
        assert "constprop" not in names


@pytest.mark.reported("c04_header_cpp")
@pytest.mark.parametrize("case", CASES)
def test_the_header_is_clean_in_cpp(case: str, tmp_path: Path, needs: Needs) -> None:
    needs("g++")
    model, options = CASES[case]
    folder = written(tmp_path / "c", plan(model(), options).files())
    (folder / "use.cpp").write_text('#include "net.h"\n')

    done = run(
        "g++", "-Wall", "-Wextra", "-Wpedantic", "-Wold-style-cast", "-Werror", "-c", "use.cpp",
        folder=folder,
    )  # fmt: skip

    assert done.stderr == ""


def test_new_weights_change_the_tables_alone() -> None:
    for model in (float_model, int8_model):
        first, second = (plan(model(seed)).files() for seed in (1, 2))

        assert [name for name in first if first[name] != second[name]] == ["net_weights.c"]


@pytest.mark.reported("c03_two_models_one_firmware")
def test_two_models_link_into_one_firmware(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", plan(float_model()).files("one"))
    written(folder, plan(float_model(7)).files("two"))
    (folder / "main.c").write_text(
        '#include "one.h"\n#include "two.h"\n'
        "int main(void)\n{\n    float x[64] = {0}, y[3];\n"
        "    return one_run(x, y) + two_run(x, y);\n}\n"
    )
    sources = [f"{m}{part}.c" for m in ("one", "two") for part in ("", "_weights")]

    done = run("gcc", *STRICT, "main.c", *sources, "-lm", "-o", "main", folder=folder)

    assert done.stderr == ""
    assert run("./main", folder=folder).returncode == 0


def test_every_external_name_begins_with_the_models(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", plan(int8_model()).files())
    assert compiles(folder, "net.c", "net_weights.c") == ""

    done = run("nm", "-g", "--defined-only", "net.o", "net_weights.o", folder=folder)

    names = [line.split()[-1] for line in done.stdout.splitlines() if " " in line]
    assert names
    assert all(name.startswith("net_") for name in names)


def test_exact_rounding_refuses_fast_math(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", plan(int8_model()).files())

    said = compiles(folder, "net.c", flags=["-ffast-math"])

    assert "#error \"net rounds exactly: no -ffast-math, or 'requantize: fixed'\"" in said


def test_fixed_rounding_takes_fast_math(tmp_path: Path) -> None:
    made = plan(int8_model(), Options(requantize="fixed"))
    folder = written(tmp_path / "c", made.files())

    assert compiles(folder, "net.c", "net_weights.c", flags=["-ffast-math"]) == ""


def test_tables_of_another_structure_do_not_compile(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", plan(float_model()).files())
    other = plan(int8_model()).files()
    (folder / "net_weights.c").write_bytes(other["net_weights.c"])

    assert '"net_weights.c and net.h are of different builds"' in compiles(folder, "net_weights.c")


def test_tables_of_another_structure_do_not_link(tmp_path: Path) -> None:
    ours = written(tmp_path / "ours", plan(float_model()).files())
    more = float_model().replace(b"pooled", b"mean64")  # another name of a tensor
    other = written(tmp_path / "other", plan(more).files())
    (ours / "main.c").write_text(
        '#include "net.h"\nint main(void)\n{\n    float x[64] = {0}, y[3];\n'
        "    return net_run(x, y);\n}\n"
    )
    assert compiles(other, "net_weights.c") == ""

    done = run("gcc", "main.c", "net.c", "../other/net_weights.o", "-lm", folder=ours)

    assert "undefined reference to `net_" in done.stderr


def test_fixed_rounding_calls_no_float_function_on_a_core_without_fpu(
    tmp_path: Path, needs: Needs
) -> None:
    needs("arm-none-eabi-gcc")
    made = plan(int8_model(), Options(requantize="fixed"))
    folder = written(tmp_path / "c", made.files())
    flags = ("-mcpu=cortex-m3", "-mthumb", "-O2")
    assert run("arm-none-eabi-gcc", *STRICT, *flags, "-c", "net.c", folder=folder).stderr == ""

    called = run("arm-none-eabi-nm", "-u", "net.o", folder=folder).stdout.split()

    assert {name for name in called if not name.startswith("net_")} <= {"U", "__aeabi_ldivmod"}


MAKEFILE = """include gen/net.mk
main: main.c $(NET_SOURCES)
\t$(CC) $(NET_CPPFLAGS) $^ $(NET_LDLIBS) -o $@
"""
CMAKELISTS = """cmake_minimum_required(VERSION 3.16)
project(use C)
include(gen/net.cmake)
add_executable(main main.c)
target_link_libraries(main PRIVATE net)
"""
MAIN = """#include "net.h"
int main(void)
{
    float x[NET_IMAGE_LEN] = {0}, y[NET_SCORES_LEN];
    return net_run(x, y);
}
"""


@pytest.mark.parametrize(
    ("tool", "commands"), [("make", ["make"]), ("cmake", ["cmake -S . -B .", "cmake --build ."])]
)
def test_the_fragment_adds_the_model_to_another_build(
    tool: str, commands: Sequence[str], tmp_path: Path, needs: Needs
) -> None:
    needs(tool)
    gen = written(tmp_path / "gen", plan(float_model()).files())
    (gen / "net.mk").write_text(make_fragment("net"))
    (gen / "net.cmake").write_text(cmake_fragment("net"))
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "CMakeLists.txt").write_text(CMAKELISTS)
    (tmp_path / "main.c").write_text(MAIN)

    for command in commands:
        done = run(*command.split(), folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr

    assert run("./main", folder=tmp_path).returncode == 0


def test_an_arena_over_budget_does_not_compile(tmp_path: Path) -> None:
    files = plan(float_model()).files()
    header = files["net.h"].decode()
    bytes_line = next(line for line in header.splitlines() if "NET_ARENA_BYTES (" in line)
    files["net.h"] = header.replace(bytes_line, "#define NET_ARENA_BYTES (65540)").encode()
    folder = written(tmp_path / "c", files)

    said = compiles(folder, "net.c")

    assert "'arena_has_its_size' is negative" in said
    assert "'arena_fits_sram' is negative" in said


def test_a_build_places_code_arena_and_tables(tmp_path: Path) -> None:
    folder = written(tmp_path / "c", plan(float_model()).files())
    flags = [
        f'-DNET_{part}_SECTION=__attribute__((section(".{part.lower()}_here")))'
        for part in ("CODE", "ARENA", "WEIGHTS")
    ]

    assert compiles(folder, "net.c", "net_weights.c", flags=flags) == ""

    sections = run("size", "-A", "net.o", "net_weights.o", folder=folder).stdout
    for name in (".code_here", ".arena_here", ".weights_here"):
        assert name in sections


def test_memories_say_in_which_sections_arena_and_tables_lie(tmp_path: Path) -> None:
    made = plan(float_model())
    sections = {"sram": ".fast_ram", "flash": ".slow_flash"}
    memories = tuple(replace(m, section=sections[m.name]) for m in BOARD.memories)
    files = replace(made, target=replace(BOARD, memories=memories)).files()

    folder = written(tmp_path / "c", files)

    assert compiles(folder, "net.c", "net_weights.c") == ""
    assert ".fast_ram" in run("size", "-A", "net.o", folder=folder).stdout
    assert ".slow_flash" in run("size", "-A", "net_weights.o", folder=folder).stdout


def test_hostile_names_become_legal_c(tmp_path: Path) -> None:
    names = ["int", "*/ #error no", "Arena", "conv1", "main", "X", "x", "ünï/\u202ecode", "log10"]
    nodes = [
        helper.make_node("Add", ["in??/", "w"], [names[0]], "a/*b"),
        *(
            helper.make_node("Mul", [before, "w"], [after], f"*/{after}")
            for before, after in pairwise(names)
        ),
    ]
    outputs = {names[-1]: [2, 3], "X": [2, 3], "x": [2, 3], "int": [2, 3]}
    model = network(nodes, {"in??/": [2, 3]}, outputs, {"w": weight([3], 1)})
    folder = written(tmp_path / "c", plan(model).files())

    assert compiles(folder, "net.c", "net_weights.c", flags=["-Wtrigraphs"]) == ""


ODD: dict[str, tuple[str, dict[str, list[int]], dict[str, list[int]]]] = {
    "a copy": ("Identity", {"x": [4]}, {"y": [4]}),
    "an input nobody reads": ("Relu", {"x": [4], "spare": [3]}, {"y": [4]}),
    "an output that is an input": ("Relu", {"x": [4]}, {"y": [4], "x": [4]}),
    "an output that is a constant": ("Relu", {"x": [4]}, {"y": [4], "w": [4]}),
    "one number": ("Relu", {"x": []}, {"y": []}),
}
INTERFACES = (
    Options(),
    Options(arena="caller", hook=True),
    Options(input="arena", output="arena"),
    Options(weights="image"),
)


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize(
    "options", INTERFACES, ids=["plain", "caller's arena", "in arena", "image"]
)
def test_odd_interfaces_become_clean_c(case: str, options: Options, tmp_path: Path) -> None:
    kind, inputs, outputs = ODD[case]
    model = network([helper.make_node(kind, ["x"], ["y"])], inputs, outputs, {"w": weight([4], 1)})

    folder = written(tmp_path / "c", plan(model, options).files())

    assert compiles(folder, "net.c", "net_weights.c") == ""


def library(folder: Path, *more: str) -> ctypes.CDLL:
    (folder / "use.c").write_text("".join(more))
    flags = ["-shared", "-fPIC", "-O1", "-std=c99"]
    done = run(
        "gcc", *flags, "net.c", "net_weights.c", "use.c", "-lm", "-o", "net.so", folder=folder
    )
    assert done.stderr == ""
    return ctypes.CDLL(str(folder / "net.so"))


def test_a_hook_may_end_a_run(tmp_path: Path) -> None:
    made = plan(float_model(), Options(hook=True))
    folder = written(tmp_path / "c", made.files())
    hook = (
        '#include "net.h"\n'
        "int net_hook(uint32_t step, void *user)\n"
        "{\n    int *left = (int *)user;\n    (void)step;\n    return --*left < 0;\n}\n"
    )
    net = library(folder, hook)
    x, y = (ctypes.c_float * 64)(), (ctypes.c_float * 3)()

    assert net.net_run(x, y, ctypes.byref(ctypes.c_int(100))) == 0
    assert net.net_run(x, y, ctypes.byref(ctypes.c_int(1))) == 1


def test_a_callers_arena_makes_two_instances(tmp_path: Path) -> None:
    made = plan(float_model(), Options(arena="caller"))
    net = library(written(tmp_path / "c", made.files()))
    x, y = (ctypes.c_float * 64)(*range(64)), (ctypes.c_float * 3)()

    results = []
    for fill in (0, 255):
        arena = (ctypes.c_uint8 * made.schedule.memories[0].height_bytes)(*[fill] * 9)
        assert net.net_run(arena, x, y) == 0
        results.append(list(y))

    assert results[0] == results[1]
    assert sum(results[0]) == pytest.approx(1.0, abs=1e-6)


def test_interface_tensors_in_the_arena_have_accessors(tmp_path: Path) -> None:
    placed = plan(float_model(), Options(input="arena", output="arena"))
    given = plan(float_model())
    first = library(written(tmp_path / "a", placed.files()))
    second = library(written(tmp_path / "b", given.files()))
    x, y = (ctypes.c_float * 64)(*range(64)), (ctypes.c_float * 3)()

    first.net_image.restype = ctypes.POINTER(ctypes.c_float)
    first.net_scores.restype = ctypes.POINTER(ctypes.c_float)
    ctypes.memmove(first.net_image(), x, ctypes.sizeof(x))
    assert first.net_run() == 0
    assert second.net_run(x, y) == 0

    assert first.net_scores()[:3] == y[:]


def test_embedded_tables_give_the_same_results(tmp_path: Path) -> None:
    model = network(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "dense")],
        {"x": [1, 64]},
        {"y": [1, 32]},
        {"w": weight([64, 32], 3)},
    )
    x = (ctypes.c_float * 64)(*range(64))

    results = []
    for form in ("auto", "braces", "string", "incbin"):
        files = plan(model, replace(Options(), weights=form)).files()
        net = library(written(tmp_path / form, files))
        y = (ctypes.c_float * 32)()
        assert net.net_run(x, y) == 0
        results.append(list(y))

    assert any(results[0])
    assert all(result == results[0] for result in results)


def test_a_table_of_one_value_is_short(tmp_path: Path) -> None:
    for value in (0.0, 0.25):
        model = network(
            [helper.make_node("Mul", ["x", "w"], ["y"], "scale")],
            {"x": [64, 64]},
            {"y": [64, 64]},
            {"w": np.full((64, 64), value, np.float32)},
        )
        files = plan(model).files()
        net = library(written(tmp_path / str(value), files))
        x, y = (ctypes.c_float * 4096)(*[2.0] * 4096), (ctypes.c_float * 4096)()

        assert net.net_run(x, y) == 0
        assert set(y) == {2.0 * value}
        assert len(files["net_weights.c"]) < 2500


def test_a_static_arena_cannot_share_memory() -> None:
    made = plan(float_model(), Options(share="audio"))

    with pytest.raises(UserError) as caught:
        made.files("kws")

    assert str(caught.value) == (
        "kws@board: error: the arenas of group 'audio' must be the caller's to share memory\n"
        "  why: a linker gives each static arena bytes of its own\n"
        "  fix: set arena: caller, and pass all models of the group one union of their arenas"
    )


def test_long_names_of_ports_keep_within_the_line(tmp_path: Path, formatted: Formatted) -> None:
    names = ["serving_default_input_of_a_long_name:0", "StatefulPartitionedCall/softmax/long:1"]
    node = helper.make_node("Relu", [names[0]], [names[1]], "x" * 200)
    model = network(
        [node], {names[0]: [1, 2, 3, 4, 5, 6, 7]}, {names[1]: [1, 2, 3, 4, 5, 6, 7]}, {}
    )
    for options in INTERFACES:
        files = plan(model, options).files("a_model_with_a_long_name")
        folder = written(tmp_path / "c", files)

        for name in texts_of(files):
            assert formatted(folder / name) == files[name].decode("ascii")
