"""`dlbuild quantize` through the command line."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("digits.onnx", "digits_samples.npz"):
        shutil.copy(EXAMPLE / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_int8_model_is_written_and_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["quantize", "digits.onnx", "--samples", "digits_samples.npz"]
    assert main.run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    made = (folder / "digits_int8.onnx").read_bytes()
    assert lines[:2] == [
        f"digits_int8.onnx: {len(made):,} B, with the ranges of 32 samples",
        "the C of both on these samples, against the outputs of the samples:",
    ]
    kinds = [re.split(r"  +", line.strip()) for line in lines[3:]]
    assert [(kind, output, agree) for kind, _, _, output, _, agree in kinds] == [
        ("float", "probabilities", "32 of 32"),
        ("int8", "probabilities", "32 of 32"),
    ]
    arena, flash, distance = (
        [float(re.sub(r" B|,", "", row[column])) for row in kinds] for column in (1, 2, 4)
    )
    assert arena[1] * 3 < arena[0]
    assert flash[1] < flash[0]
    assert distance[0] < 1e-5 < distance[1] < 0.1
    (folder / "digits_int8.onnx").unlink()
    assert main.run(command) == 0
    assert (folder / "digits_int8.onnx").read_bytes() == made


def test_a_model_that_is_quantised_already_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("digits_int8.onnx", "digits_int8_samples.npz"):
        shutil.copy(EXAMPLE / name, folder)
    command = ["quantize", "digits_int8.onnx", "--samples", "digits_int8_samples.npz"]
    assert main.run([*command, "--output", "again.onnx"]) == 1
    assert capsys.readouterr().err == (
        "digits_int8.onnx: error: the model is quantised already\n"
        "  why: of its constants 7,184 numbers have 8 bits, 72 are floats\n"
        "  fix: name it in dlbuild.yaml as it is, or give the float model\n"
    )
    assert not (folder / "again.onnx").exists()


def test_a_float_model_with_a_few_narrow_numbers_is_quantised(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(folder / "digits.onnx")
    mask = numpy_helper.from_array(np.ones((1, 10), np.int8), "mask")
    name = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = [f"{name}_bare" if each == name else each for each in node.output]
    model.graph.initializer.append(mask)
    to = TensorProto.FLOAT
    model.graph.node.append(helper.make_node("Cast", ["mask"], ["real_mask"], to=to))
    model.graph.node.append(helper.make_node("Mul", [f"{name}_bare", "real_mask"], [name]))
    onnx.save(model, folder / "digits.onnx")

    assert main.run(["quantize", "digits.onnx", "--samples", "digits_samples.npz"]) == 0
    assert "digits_int8.onnx" in capsys.readouterr().out


def test_without_outputs_the_float_model_is_what_is_right(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with np.load("digits_samples.npz") as file:
        np.savez("inputs.npz", in0=file["image"][:8])
    main.run(
        ["quantize", "digits.onnx", "--samples", "inputs.npz", "--output", "o.onnx", "--per-tensor"]
    )
    text = capsys.readouterr().out
    assert "o.onnx: " in text
    assert "with the ranges of 8 samples" in text
    assert "against what the float model gives in ONNX Runtime" in text
    assert (folder / "o.onnx").is_file()


@pytest.mark.usefixtures("folder")
def test_the_int8_model_builds_and_each_kernel_is_right() -> None:
    main.run(["quantize", "digits.onnx", "--samples", "digits_samples.npz"])
    Path("dlbuild.yaml").write_text(
        "version: 1\nmodels: {net: {source: digits_int8.onnx}}\n"
        "targets: {pc: {extends: host}}\nbuilds: [{model: net, target: pc}]\n"
    )
    command = [sys.executable, "-m", "dlbuild", "verify", "--layers"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("folder")
def test_the_float_model_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["quantize", "digits.onnx", "--samples", "digits_samples.npz", "--output"]
    assert main.run([*command, "./digits.onnx"]) == 1
    assert capsys.readouterr().err == (
        "digits.onnx: error: the int8 model would replace the float one\n  fix: name another\n"
    )


@pytest.mark.usefixtures("folder")
def test_a_shape_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["quantize", "digits.onnx", "--samples", "digits_samples.npz", "--shape", "image"]
    assert main.run(command) == 2
    assert capsys.readouterr().err == (
        "dlbuild quantize --shape: error: 'image' is no shape\n"
        "  fix: write it as --shape image=1,3,96,96\n"
    )


@pytest.mark.usefixtures("folder")
def test_without_onnx_runtime_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # importing it fails
    assert main.run(["quantize", "digits.onnx", "--samples", "digits_samples.npz"]) == 1
    assert capsys.readouterr().err.endswith("  fix: pip install 'dlbuild[quantize]'\n")
