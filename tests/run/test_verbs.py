"""Verbs that report on a build, run as a user runs them."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from dlbuild.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
RECIPE = """\
version: 1
models:
  net: {source: net.onnx, samples: samples.npz}
targets:
  pc: {extends: host}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits network, shared by the tests of this file."""
    folder = tmp_path_factory.mktemp("verbs")
    shutil.copy(DIGITS / "digits.onnx", folder / "net.onnx")
    shutil.copy(DIGITS / "digits_samples.npz", folder / "samples.npz")
    (folder / "dlbuild.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(autouse=True)
def _inside(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(built)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main.run(arguments)
    return code, capsys.readouterr().out


def test_verify_passes_and_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ran(capsys, "verify")
    assert code == 0
    assert text.splitlines()[:2] == [
        "net@pc: passed, 32 samples",
        "  against expected outputs of the samples",
    ]


def test_layers_in_strips_count_in_the_limit_and_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(DIGITS / "digits_int8.onnx", tmp_path / "net.onnx")
    shutil.copy(DIGITS / "digits_int8_samples.npz", tmp_path / "samples.npz")
    (tmp_path / "dlbuild.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    plain, strips = (
        json.loads(ran(capsys, "verify", "--layers", "--json", "-D", f"optimize={way}")[1])[0]
        for way in ("speed", "ram")
    )
    assert plain["outputs"][0]["limit"] == strips["outputs"][0]["limit"] == "6 LSB"
    assert not any("row by row" in note for note in plain["notes"])
    assert any(
        note.startswith("not compared alone, because they run row by row: conv1, conv2")
        for note in strips["notes"]
    )


def test_verify_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ran(capsys, "verify", "--json")
    (verdict,) = json.loads(text)
    assert (code, verdict["passed"], verdict["is_repeatable"]) == (0, True, True)


def test_verify_fails_if_the_samples_expect_something_else(
    capsys: pytest.CaptureFixture[str], built: Path
) -> None:
    samples = dict(np.load(built / "samples.npz"))
    wrong = {
        name: array + 1 if name.startswith("prob") else array for name, array in samples.items()
    }
    np.savez(built / "wrong.npz", **wrong)
    (built / "dlbuild.yaml").write_text(RECIPE.replace("samples.npz", "wrong.npz"))
    try:
        code, text = ran(capsys, "verify")
    finally:
        (built / "dlbuild.yaml").write_text(RECIPE)
    assert code == 1
    assert text.startswith("net@pc: FAILED, 32 samples\n")


def test_size_prints_what_the_objects_take(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ran(capsys, "size", "--json")
    (row,) = json.loads(text)
    assert (code, row["build"], row["arena_bytes"]) == (0, "net@pc", 6144)
    assert row["flash_bytes"] >= row["code_bytes"] + row["tables_bytes"] > 20_000
    assert ran(capsys, "size")[1].startswith("model@target  arena  bound  stack   code  tables")


def test_explain_tells_of_a_build(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, "build")[0] == 0
    code, text = ran(capsys, "explain", "--all", "pc")
    assert code == 0
    assert "net@pc\n  parse" in text
    assert "would run" not in text


def test_outputs_are_the_files_that_a_build_writes(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, "build")[0] == 0
    listed = set(ran(capsys, "outputs")[1].split())
    folder = Path("build/dlbuild/pc")
    found = {Path(root, name).as_posix() for root, _, names in os.walk(folder) for name in names}
    assert listed == found


def test_a_dry_run_says_what_would_run_and_writes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ran(capsys, "build")[0] == 0
    assert ran(capsys, "build", "-n") == (0, "nothing to do\n")
    code, text = ran(capsys, "build", "-n", "-D", "optimize=size", "-B", "elsewhere")
    assert code == 0
    assert "net@pc: profile (would run: it was not made before)" in text.splitlines()
    assert "net@pc: tile (depends on what profile makes; on what costs makes)" in text.splitlines()
    assert not Path("elsewhere").exists()


def test_a_check_names_the_files_that_a_build_would_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ran(capsys, "build")[0] == 0
    assert ran(capsys, "build", "--check") == (0, "every file is as a build would leave it\n")
    made = Path("build/dlbuild/pc/net")
    (made / "net.h").unlink()
    (made / "net.c").write_text("int mine;\n")
    expected = "build/dlbuild/pc/net/net.c: would change\nbuild/dlbuild/pc/net/net.h: is missing\n"
    assert ran(capsys, "build", "--check") == (1, expected)
    assert (made / "net.c").read_text() == "int mine;\n"
    assert ran(capsys, "build")[0] == 0
