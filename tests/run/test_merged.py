"""`optimize: size`: functions that differ in numbers alone are one where that takes less flash."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.build.builder import How, build
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.recipe import read_recipe
from dlbuild.cli import main
from dlbuild.cli.bench import figures_of
from dlbuild.run.compile import WARNINGS
from dlbuild.run.size import size_of
from dlbuild.run.toolchain import identify
from tests.conftest import Needs
from tests.run.conftest import Formatted

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
NETS = ("digits", "int8", "chain")
RECIPE = """\
version: 1
models:
  digits: {source: digits.onnx, samples: digits_samples.npz}
  int8: {source: digits_int8.onnx, samples: digits_int8_samples.npz}
  chain: {source: chain.onnx, samples: chain.npz}
targets:
  speed: {extends: host}
  size: {extends: host, optimize: size}
  cores: {extends: host, optimize: size, resources: {threads: 2}}
builds:
  - {model: digits, target: [speed, size]}
  - {model: int8, target: [speed, size]}
  - {model: chain, target: [speed, size, cores]}
"""
COMPILERS = (
    ("gcc", "-Os"),
    ("clang-14", "-Os"),
    ("clang-14", "--target=arm-none-eabi", "-mcpu=cortex-m4", "-Os", "-ffreestanding"),
)


def chain() -> onnx.ModelProto:
    """Return four convolutions, of which the inner two have one form, then two dense layers."""
    rng = np.random.default_rng(6)
    nodes, constants, name = [], [], "x"
    for at, (into, out) in enumerate(((4, 8), (8, 12), (12, 10), (10, 6))):
        nodes.append(
            helper.make_node(
                "Conv", [name, f"w{at}", f"b{at}"], [f"c{at}"], f"conv{at}", pads=[1] * 4
            )
        )
        nodes.append(helper.make_node("Relu", [f"c{at}"], [f"r{at}"], f"relu{at}"))
        constants.append((f"w{at}", rng.normal(0, 0.3, (out, into, 3, 3))))
        constants.append((f"b{at}", rng.normal(0, 0.3, out)))
        name = f"r{at}"
    nodes.append(helper.make_node("Flatten", [name], ["flat"], "flatten"))
    name = "flat"
    for at, (into, out) in enumerate(((6 * 7 * 5, 10), (10, 3))):
        nodes.append(helper.make_node("Gemm", [name, f"g{at}", f"h{at}"], [f"d{at}"], f"dense{at}"))
        constants.append((f"g{at}", rng.normal(0, 0.3, (into, out))))
        constants.append((f"h{at}", rng.normal(0, 0.3, out)))
        name = f"d{at}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 7, 5])],
        [helper.make_tensor_value_info("d1", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three networks, built for this machine with `speed` and with `size`."""
    folder = tmp_path_factory.mktemp("merged")
    for file in ("digits", "digits_int8"):
        shutil.copy(DIGITS / f"{file}.onnx", folder)
        shutil.copy(DIGITS / f"{file}_samples.npz", folder)
    onnx.save(chain(), folder / "chain.onnx")
    samples = np.random.default_rng(1).normal(0, 1, (4, 1, 4, 7, 5)).astype(np.float32)
    np.savez(folder / "chain.npz", x=samples)
    (folder / "dlbuild.yaml").write_text(RECIPE)
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main.run(("build",)) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture(autouse=True)
def _inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    code = main.run(arguments)
    out = capsys.readouterr().out
    assert code == 0, out
    return out


def test_the_results_are_those_of_speed_to_the_bit() -> None:
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(Path("build/dlbuild"), 1), identify, lambda _: None)
    found = {
        (one.model, one.target): figures_of(engine, one, steps=False, count=False).content
        for one in recipe.builds
    }
    for net in NETS:
        assert found[net, "size"] == found[net, "speed"] != b""
    assert found["chain", "cores"] == found["chain", "speed"]
    text = Path("build/dlbuild/cores/chain/chain.c").read_text()
    assert "&conv3_sizes);" in text


def test_each_kernel_alone_is_called_as_the_schedule_calls_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = printed(capsys, "verify", "cores", "--layers")
    assert "conv3" in said


def test_it_takes_less_flash_than_speed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, "size", "--functions", "--json"))
    flash = {row["build"]: row["flash_bytes"] for row in rows}
    for net in NETS:
        assert flash[f"{net}@size"] < flash[f"{net}@speed"]
    (row,) = [row for row in rows if row["build"] == "chain@size"]
    conv, dense = row["functions"]
    assert conv["layers"] == ["conv1", "conv2"]
    assert dense["layers"] == ["dense0", "dense1"]
    for group in (conv, dense):
        assert group["is_merged"]
        assert 0 < group["together_bytes"] < group["apart_bytes"]
    assert dense["apart_bytes"] == conv["together_bytes"]
    # What was counted is the object that was built.
    made = Path("build/dlbuild/size/chain/chain.o").read_bytes()
    size = size_of("chain.o", made, read_recipe().targets["size"])
    assert size.flash_bytes == dense["together_bytes"]


def test_a_call_shows_its_numbers_by_name() -> None:
    text = Path("build/dlbuild/size/chain/chain.c").read_text()
    assert text.count("static void conv2(") == 1
    assert "static void conv3(" not in text
    assert "static const conv2_sizes_t conv3_sizes = {" in text
    assert " .M = 10, " in " ".join(text.split())
    assert "&conv3_sizes);" in text
    assert "nodes: 'conv1', 'conv2'" in text


def test_functions_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "size", "--functions")
    assert "functions of chain@speed: each for its own sizes, since optimize is not size\n" in text
    assert "functions of chain@size that differ in numbers alone\n" in text
    assert "  conv2: one function; they differ in " in text
    assert "; layers conv1, conv2\n" in text
    assert "  conv2     2 sizes       2  " in text


def test_running_them_says_what_it_costs(capsys: pytest.CaptureFixture[str], needs: Needs) -> None:
    needs("valgrind")
    rows = json.loads(printed(capsys, "size", "--run", "--json", "size"))
    (row,) = [row for row in rows if row["build"] == "chain@size"]
    apart, together = row["functions"][0]["instructions"]
    assert together > apart / 2 > 0


@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
@pytest.mark.parametrize("net", NETS)
def test_no_compiler_warns(
    net: str, compiler: tuple[str, ...], tmp_path: Path, needs: Needs
) -> None:
    needs(compiler[0])
    folder = shutil.copytree(f"build/dlbuild/size/{net}", tmp_path / "c")
    include = (
        ["-isystem/usr/lib/arm-none-eabi/include"] if "--target=arm-none-eabi" in compiler else []
    )
    command = [*compiler, *include, "-std=c99", *WARNINGS, "-c", f"{net}.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("net", NETS)
def test_clang_format_changes_nothing(net: str, formatted: Formatted) -> None:
    file = Path(f"build/dlbuild/size/{net}/{net}.c").absolute()
    assert formatted(file) == file.read_text()


def test_the_same_inputs_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLBUILD_CACHE_DIR", str(tmp_path / "cache"))
    printed(capsys, "build", "size", "-B", str(tmp_path / "again"))
    for file in ("chain.c", "plan/5-merged.json"):
        again = (tmp_path / "again/size/chain" / file).read_bytes()
        assert again == Path("build/dlbuild/size/chain", file).read_bytes()


def test_without_a_compiler_nothing_is_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy("chain.onnx", tmp_path)
    (tmp_path / "dlbuild.yaml").write_text(
        "version: 1\nmodels: {chain: {source: chain.onnx}}\n"
        "targets: {t: {extends: host, toolchain: {cc: no-such-cc}}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main.run(("build", "--sources")) == 0
    assert main.run(("build", "--sources", "-D", "optimize=size")) == 1
    captured = capsys.readouterr()
    assert "there is no program 'no-such-cc'" in captured.out + captured.err


@pytest.fixture
def fragile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose compiler does what the file `fault` says where functions are one."""
    compiler, fault = tmp_path / "fragile-cc", tmp_path / "fault"
    compiler.write_text(
        "#!/bin/sh\n"
        'for word; do case "$word" in *.c) source=$word ;; esac; done\n'
        f'if grep -qs "&conv3_sizes" "$source"; then . "{fault}"; fi\n'
        'exec cc "$@"\n'
    )
    compiler.chmod(0o755)
    shutil.copy("chain.onnx", tmp_path)
    (tmp_path / "dlbuild.yaml").write_text(
        "version: 1\nmodels: {chain: {source: chain.onnx}}\n"
        f"targets: {{t: {{extends: host, toolchain: {{cc: {compiler}}}, optimize: size}}}}\n"
    )
    monkeypatch.setenv("DLBUILD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return fault


def obstacle_of_conv() -> tuple[bool, str]:
    (conv, _) = json.loads(Path("build/dlbuild/t/chain/plan/5-merged.json").read_text())["groups"]
    return conv.get("is_merged", False), conv.get("obstacle", "")


def test_functions_stay_apart_if_the_compiler_refuses_them_as_one(fragile: Path) -> None:
    fragile.write_text('echo "$source:7:5: error: no such thing"; exit 1\n')
    assert main.run(("build",)) == 0
    assert obstacle_of_conv() == (False, "the compiler refuses it")


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("kill -9 $$", "-9"),
        ('echo "cc: fatal error: Killed signal terminated program cc1"; exit 1', "1"),
        ('echo "cc1: out of memory allocating 65536 bytes after a total of 0 bytes"; exit 1', "1"),
        ('echo "$source:1:1: fatal error: x.s: No space left on device"; exit 1', "1"),
        ('echo "$source:7:5: internal compiler error: Segmentation fault"; exit 4', "4"),
        ("exit 137", "137"),
    ],
)
def test_a_compiler_that_is_broken_off_decides_nothing(
    fragile: Path, fault: str, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fragile.write_text(f"{fault}\n")
    assert main.run(("build",)) == 1
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert f"fragile-cc was broken off at chain.c (exit status {status})\n" in said
    assert "  fix: leave it more memory and room on the disk, and build again\n" in said

    fragile.write_text("")
    assert main.run(("build",)) == 0
    assert obstacle_of_conv() == (True, "")


def test_a_compiler_that_fails_without_a_fault_of_the_code_decides_nothing(
    fragile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fragile.write_text("echo cc: no license; exit 1\n")
    assert main.run(("build",)) == 1
    captured = capsys.readouterr()
    assert "fragile-cc refuses chain.c\n" in captured.out + captured.err
