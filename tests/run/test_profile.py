"""`dlbuild profile --run` on this machine."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import yaml

from dlbuild.cli.main import run
from dlbuild.ir import codec
from dlbuild.ir.costs import Measurements

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
FILE = Path("times/host.json")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a recipe with one network and a file for its measurements, and go there."""
    monkeypatch.chdir(tmp_path)
    recipe = {
        "version": 1,
        "models": {"digits": {"source": str(DIGITS / "digits_int8.onnx")}},
        "targets": {"here": {"extends": "host", "profile": FILE.as_posix()}},
    }
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(arguments) == 0
    return capsys.readouterr().out


def entries() -> dict[str, int]:
    found = codec.decode(FILE.read_bytes(), Measurements).entries
    return {entry.signature: entry.cost for entry in found}


@pytest.mark.usefixtures("project")
def test_a_second_run_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no measurement of digits@here: " in said(capsys, "build")
    assert "known\n  their sum is " in said(capsys, "profile", "--run")
    first = FILE.read_bytes()
    assert "digits@here: nothing to measure\n" in said(capsys, "profile", "--run")
    assert FILE.read_bytes() == first
    assert "out of date" not in said(capsys, "build")


@pytest.mark.usefixtures("project")
def test_only_what_is_not_known_is_measured_again(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "profile", "--run")
    before = codec.decode(FILE.read_bytes(), Measurements)
    # A number that no clock gives shows that the others are kept.
    kept = tuple(replace(e, cost=1) for e in before.entries[1:])
    FILE.write_bytes(codec.encode(Measurements(kept)))

    text = said(capsys, "profile", "--run")

    assert f"digits@here: 1 kernels measured, {len(kept)} known" in text
    cost = entries()[before.entries[0].signature]
    assert f"\n  their sum is {cost + len(kept):,} ns, a whole run" in text
    assert {e.signature for e in before.entries} == set(entries())
    assert [cost for signature, cost in entries().items() if cost == 1] == [1] * len(kept)


@pytest.mark.usefixtures("project")
def test_what_no_longer_occurs_is_told_and_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "profile", "--run")
    found = codec.decode(FILE.read_bytes(), Measurements)
    odd = replace(found.entries[0], signature="0" * 64)
    FILE.write_bytes(codec.encode(Measurements((*found.entries, odd))))
    assert "is out of date: 1 of kernels that no longer occur\n" in said(capsys, "build")
    said(capsys, "profile", "--run")
    assert FILE.read_bytes() == codec.encode(found)


@pytest.mark.usefixtures("project")
def test_the_annotated_model_has_the_times(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "profile", "--run")
    path = "build/dlbuild/here/digits/digits.profile.onnx"
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path, load_external_data=False)
    whole = {p.key: p.value for p in model.metadata_props}
    notes = [{p.key: p.value for p in node.metadata_props} for node in model.graph.node]
    assert whole["time_unit"] == "ns"
    assert sum(int(note.get("time", "0")) for note in notes) == int(whole["time"]) > 0
    shares = [int(n["share"].removesuffix(" %").replace(".", "")) for n in notes if "share" in n]
    assert sum(shares) == 10_000


@pytest.mark.usefixtures("project")
def test_a_run_needs_a_file_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = yaml.safe_load(Path("dlbuild.yaml").read_text())
    del recipe["targets"]["here"]["profile"]
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe))
    assert run(("profile", "--run")) == 2
    assert capsys.readouterr().err.endswith(
        "digits@here names no file for its measurements\n"
        "  fix: set profile: measurements.json in its target, and commit that file\n"
    )
