"""Faults that users reported of tools of this kind, as the files of a build would show them.

Faults whose place is another test are marked there.
"""

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from dlbuild.emit.literals import chunks, text
from dlbuild.ir.weights import Array
from tests.conftest import Needs

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "digits"
FLOAT, INTEGER = "digits", "digits_int8"
MODELS = (FLOAT, INTEGER)
FRAME_BYTES = 1024
"""No function of the generated C takes more of the stack than this, however deep the model is."""


def command(*words: str, folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both examples for this machine; return the folder of the target."""
    folder = tmp_path_factory.mktemp("digits")
    for model in MODELS:
        shutil.copy(EXAMPLE / f"{model}.onnx", folder)
    (folder / "dlbuild.yaml").write_text(
        "version: 1\n"
        "models: {digits: {source: digits.onnx}, digits_int8: {source: digits_int8.onnx}}\n"
        "targets: {pc: {extends: host}}\n"
        "builds: [{model: digits, target: pc}, {model: digits_int8, target: pc}]\n"
    )
    command(sys.executable, "-m", "dlbuild", "build", folder=folder)
    return folder / "build" / "dlbuild" / "pc"


@pytest.fixture(scope="module")
def library(made: Path) -> ctypes.CDLL:
    """Return one library with both models in it."""
    sources = [str(file) for model in MODELS for file in sorted((made / model).glob("*.c"))]
    folders = [f"-I{made / model}" for model in MODELS]
    command("cc", "-std=c99", "-O1", "-shared", "-fPIC", *folders, *sources, "-lm", "-o", "m.so",
            folder=made)  # fmt: skip
    return ctypes.CDLL(str(made / "m.so"))


def samples(model: str) -> tuple[Array, Array]:
    with np.load(EXAMPLE / f"{model}_samples.npz") as file:
        keys = list(file.files)
        return file[keys[0]], file[keys[1]]


def run(library: ctypes.CDLL, model: str, x: Array, y: Array) -> None:
    assert library[f"{model}_run"](x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(
        ctypes.c_void_p)) == 0  # fmt: skip


def sections(made: Path, model: str, flags: Sequence[str]) -> Mapping[str, int]:
    """Compile a model and return the bytes of each kind of section."""
    folder = made / model
    found = {"text": 0, "data": 0, "bss": 0}
    for file in sorted(folder.glob("*.c")):
        command("gcc", "-std=c99", *flags, "-c", file.name, "-o", "size.o", folder=folder)
        lines = command("size", "-A", "size.o", folder=folder).splitlines()
        for name, size, *_ in (line.split() for line in lines if line.startswith(".")):
            kind = "text" if name.startswith((".text", ".rodata", ".eh_frame")) else ""
            kind = kind or next((k for k in ("data", "bss") if name.startswith(f".{k}")), "")
            found |= {kind: found[kind] + int(size)} if kind else {}
    return found


@pytest.mark.reported("c01_weights_in_ram")
@pytest.mark.parametrize("flags", [("-Os",), ("-O0",), ("-Os", "-fPIC")])
@pytest.mark.parametrize("model", MODELS)
def test_no_table_lies_in_ram(made: Path, model: str, flags: Sequence[str]) -> None:
    plan = json.loads((made / model / "plan" / "4-schedule.json").read_text())
    (arena,) = plan["memories"]
    found = sections(made, model, flags)
    assert found["data"] == 0
    assert found["bss"] == arena["height_bytes"]
    assert found["text"] > 10_000


@pytest.mark.reported("c02_stack_use")
@pytest.mark.parametrize("flags", [("-O0",), ("-Os",), ("-O3", "-funroll-loops")])
@pytest.mark.parametrize("model", MODELS)
def test_no_function_takes_much_of_the_stack(made: Path, model: str, flags: Sequence[str]) -> None:
    folder = made / model
    command("gcc", "-std=c99", *flags, "-fstack-usage", "-c", f"{model}.c", "-o", "stack.o",
            folder=folder)  # fmt: skip
    lines = (folder / "stack.su").read_text().splitlines()
    frames = {line.split("\t")[0]: line.split("\t")[1:] for line in lines}
    assert frames
    # An array of variable length would be "dynamic" alone; arguments that are pushed are bounded.
    assert {how for _, how in frames.values()} <= {"static", "dynamic,bounded"}
    assert max(int(size) for size, _ in frames.values()) <= FRAME_BYTES


@pytest.mark.reported("c08_input_preserved")
@pytest.mark.parametrize("model", MODELS)
def test_inputs_stay_and_outputs_last(library: ctypes.CDLL, model: str) -> None:
    """Also while another model of the same firmware runs."""
    other = next(name for name in MODELS if name != model)
    x, due = samples(model)
    given, y = x[0].copy(), np.empty_like(due[0])
    run(library, model, given, y)
    first = y.copy()
    run(library, other, samples(other)[0][0].copy(), np.empty_like(samples(other)[1][0]))
    assert given.tobytes() == x[0].tobytes()
    assert y.tobytes() == first.tobytes()
    run(library, model, given, y)
    assert y.tobytes() == first.tobytes()


@pytest.mark.reported("c09_second_run")
@pytest.mark.parametrize("model", MODELS)
def test_runs_do_not_depend_on_those_before(library: ctypes.CDLL, model: str) -> None:
    x, due = samples(model)
    results = []
    for number in (0, 0, 0, 1, 0, 1):
        y = np.empty_like(due[number])
        run(library, model, x[number].copy(), y)
        results.append(y.tobytes())
    assert results[0] != results[3]
    assert results == [results[0]] * 3 + [results[3], results[0], results[3]]


def limited(memory_bytes: int, seconds: int) -> Callable[[], None]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    return limit


@pytest.mark.reported("c10_compile_cost")
@pytest.mark.parametrize("compiler", ["gcc", "clang-14", "arm-none-eabi-gcc"])
def test_a_large_table_compiles_in_little_time_and_memory(
    compiler: str, tmp_path: Path, needs: Needs
) -> None:
    """100 bytes of memory and 2 microseconds for each float, and what a compiler takes for none."""
    needs(compiler)
    count = 2_000_000
    content = np.random.default_rng(1).normal(size=count).astype(np.float32).tobytes()
    shape = chunks(len(content))
    head = f"typedef union {{ unsigned char text[{shape.rows}][{shape.columns}]; float at[1]; }} t;"
    definition = f"extern const t a;\nconst t a = {{ {text(content)} }};\n"
    (tmp_path / "a.c").write_text(f"{head}\n{definition}", encoding="ascii")
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wtrigraphs", "-Werror"]
    done = subprocess.run(
        [compiler, *flags, "-c", "a.c"],
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C"},
        preexec_fn=limited(256_000_000 + 100 * count, 4 + 2 * count // 1_000_000),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert content in (tmp_path / "a.o").read_bytes()
