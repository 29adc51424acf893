"""A sweep by processes of this machine."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from dlbuild.build import sweep as points
from dlbuild.build.sweep import Point, evaluate

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
RECIPE = """\
version: 1
models: {net: {source: net.onnx}}
targets: {pc: {extends: host, memories: {sram: 64 KiB}}}
"""


RULE = """\
op: Relu
replaces: elementwise.yaml#Relu
summary: y = {value}
inputs: {{x: {{shape: [N]}}}}
outputs: {{y: {{shape: [N]}}}}
domain: {{n: N}}
read: {{x: n}}
steps: [{{y: "{value}"}}]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(DIGITS / "digits_int8.onnx", tmp_path / "net.onnx")
    (tmp_path / "dlbuild.yaml").write_text(RECIPE)
    return tmp_path


def sweep(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dlbuild", "sweep", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_processes_give_the_table_of_one_and_a_second_sweep_runs_nothing(
    project: Path, cache: Path
) -> None:
    grid = ("--over", "optimize=speed,ram", "--over", "memory.sram=512 B,32 KiB")
    first = sweep(project, *grid, "-j", "2")
    assert first.returncode == 0, first.stderr
    assert "0 stages" not in first.stderr
    second = sweep(project, *grid)
    assert second.stdout == first.stdout
    assert second.stderr == "4 points, 0 stages run\n"
    assert cache.is_dir()


def test_points_that_do_not_fit_are_part_of_the_table(project: Path) -> None:
    done = sweep(project, "--over", "memory.sram=16 B", "--json")
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["is_best"]) == (1, False)
    assert row["fault"].startswith("the arena needs ")


def test_a_scheduler_that_does_not_answer_is_named(project: Path) -> None:
    done = sweep(project, "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "--scheduler tcp://127.0.0.1:9: error: no scheduler answers" in done.stderr


def test_a_process_that_outlives_an_edit_of_a_rule_reads_it_anew(
    tmp_path: Path, cache: Path
) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "dlbuild.yaml").write_text(f"{RECIPE}packs: [own]\n")
    rule = tmp_path / "own" / "rules" / "ops" / "relu.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text(RULE.format(value="x"))
    point = Point((tmp_path / "dlbuild.yaml").as_posix(), "net", "pc", (), cache.as_posix())
    assert evaluate(point).fault == ""
    rule.write_text(RULE.format(value="x + nothing"))
    assert "nothing" in evaluate(point).fault


def test_a_process_whose_code_was_changed_makes_nothing(
    project: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = Point((project / "dlbuild.yaml").as_posix(), "net", "pc", (), cache.as_posix())
    monkeypatch.setattr(points, "_LOADED_NS", 0)
    outcome = evaluate(point)
    assert outcome.fault.startswith("dlbuild was changed since this worker began")
    assert outcome.stages == 0
