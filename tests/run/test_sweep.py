"""A sweep by processes of this machine."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
RECIPE = """\
version: 1
models: {net: {source: net.onnx}}
targets: {pc: {extends: host, memories: {sram: 64 KiB}}}
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
    pytest.importorskip("distributed", reason="Dask is an extra")
    done = sweep(project, "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "--scheduler tcp://127.0.0.1:9: error: no scheduler answers" in done.stderr
