"""The training step of examples/finetune: whole, and with its batch in parts for threads."""

import importlib.util
import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import yaml

from dlbuild.base.paths import builtin_folder
from dlbuild.cli.main import run
from dlbuild.ir.batch import Batch
from dlbuild.rulebook.load import load_rules
from dlbuild.stages.annotate import to_onnx
from dlbuild.stages.batch import split_batch
from dlbuild.stages.parse import parse

EXAMPLE = Path(__file__).parents[2] / "examples" / "finetune"
PARAMETERS = ("conv3.weight", "conv3.bias", "fc.weight", "fc.bias")
STATE = {f"{name}.next": name for name in PARAMETERS}
PARTS = (2, 4)
STEPS = 50
NEAR = 1e-6
"""The greatest difference of a parameter after all steps, relative to the greatest parameter."""

Floats = npt.NDArray[np.float32]


@cache
def model() -> onnx.ModelProto:
    return onnx.load(EXAMPLE / "finetune.onnx")


def test_the_graph_is_what_its_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("make_step", EXAMPLE / "make_step.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made: onnx.ModelProto = script.step(script.N_SAMPLES)
    assert made == model()


def session(made: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    content = made.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def trained(made: onnx.ModelProto) -> tuple[dict[str, Floats], list[float]]:
    """Return the parameters after all steps by ONNX Runtime, and the loss at each."""
    content = np.frombuffer((EXAMPLE / "digits.bin").read_bytes(), np.uint8)
    images = (content[: 360 * 64].reshape(360, 1, 8, 8) / 16).astype(np.float32)
    labels = content[360 * 64 :].astype(np.int64)
    runner = session(made)
    names = [output.name for output in runner.get_outputs()]
    found = {t.name: onnx.numpy_helper.to_array(t) for t in model().graph.initializer}
    values = {name: found[name] for name in PARAMETERS}
    losses = []
    for step in range(STEPS):
        batch = np.arange(16 * step, 16 * step + 16) % 240
        given = {"image": images[batch], "labels": labels[batch], "rate": np.float32(0.1)}
        given = {name: np.asarray(value) for name, value in given.items()}
        results = dict(zip(names, runner.run(None, {**given, **values}), strict=True))
        values = {name: results[f"{name}.next"] for name in PARAMETERS}
        losses.append(float(results["loss"]))
    return values, losses


def difference(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def test_the_divided_graph_trains_alike_in_onnx_runtime() -> None:
    book = load_rules([builtin_folder()])
    parsed = parse(EXAMPLE / "finetune.onnx", {}, book, "finetune", STATE)
    whole, losses = trained(model())
    assert losses[-1] < losses[0] / 10
    for parts in PARTS:
        made = split_batch(parsed, book, Batch(("image", "labels"), parts))
        written = to_onnx(made.graph, made.weights)
        onnx.checker.check_model(written, full_check=True)
        assert [node.op_type for node in written.graph.node].count("Sum") == len(PARAMETERS) + 1
        values, _ = trained(written)
        assert max(difference(values[name], whole[name]) for name in PARAMETERS) <= NEAR


def program(folder: Path, parts: int, patch: pytest.MonkeyPatch) -> Path:
    """Build the example for as many threads as parts, and the program that trains."""
    folder.mkdir()
    entry = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]
    entry["source"] = str(EXAMPLE / "finetune.onnx")
    target: dict[str, object] = {"extends": "host"}
    if parts > 1:
        entry["batch"] = {"inputs": ["image", "labels"], "parts": parts}
        target["resources"] = {"threads": parts}
    recipe = {"version": 1, "models": {"finetune": entry}, "targets": {"pc": target}}
    (folder / "dlbuild.yaml").write_text(yaml.safe_dump(recipe))
    patch.chdir(folder)
    assert run(("build", "--sources")) == 0
    made = folder / "build" / "dlbuild" / "pc" / "finetune"
    sources = [EXAMPLE / "main.c", *sorted(made.glob("*.c"))]
    threads = [f"-DCORES={parts}", "-pthread"] if parts > 1 else []
    flags = ["-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{made}", *threads]
    command = ["gcc", *flags, *map(str, sources), "-o", str(folder / "main"), "-lm"]
    subprocess.run(command, check=True)
    return folder / "main"


def test_training_on_the_device_raises_the_accuracy_on_held_back_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {}
    for parts in (1, *PARTS):
        file = program(tmp_path / str(parts), parts, monkeypatch)
        saved = file.with_suffix(".bin")
        command = [str(file), str(EXAMPLE / "digits.bin"), str(saved)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        before, after = map(int, re.findall(r"(?:before|after): (\d+) of 120", said))
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", said)]
        assert before < 12
        assert after > 100
        assert losses == sorted(losses, reverse=True)
        parameters[parts] = np.frombuffer(saved.read_bytes(), np.float32)
    for parts in PARTS:
        assert difference(parameters[parts], parameters[1]) <= NEAR


def test_the_order_of_the_recipe_is_that_of_the_parameters_whatever_the_cache_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]
    entry["source"] = str(EXAMPLE / "finetune.onnx")
    states = list(entry["state"].items())
    saved = []
    for order in (states, states[::-1]):
        model = {**entry, "state": dict(order)}
        recipe = {
            "version": 1,
            "models": {"finetune": model},
            "targets": {"pc": {"extends": "host"}},
        }
        Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
        assert run(("build", "--sources")) == 0
        text = Path("build/dlbuild/pc/finetune/finetune.c").read_text()
        saved.append(re.findall(r"memcpy\(next, .*, (\d+)\);", text))

    assert saved == [["18432", "128", "5120", "40"], ["40", "5120", "128", "18432"]]


def test_bench_begins_each_run_with_the_parameters_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path / "project", 1, monkeypatch)
    assert run(("bench", "--json")) == 0
    assert '"cost"' in capsys.readouterr().out


@pytest.mark.parametrize("parts", PARTS)
def test_threads_verify_the_divided_step(
    parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "project", parts, monkeypatch)
    assert run(("verify",)) == 0
