"""The command line: verbs, options, exit codes and errors in full."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import dlbuild
from dlbuild.build.request import request_of
from dlbuild.cli import main
from dlbuild.cli.arguments import parser_of
from dlbuild.cli.verbs import VALUE_OPTIONS, VERBS

RECIPE = """\
version: 1
models: {kws: {source: kws.onnx}}
targets:
  pc: {extends: host}
  board: {extends: cortex-m4f, memories: {sram: 48 KiB}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kws.onnx").write_bytes(b"not a model")
    (tmp_path / "dlbuild.yaml").write_text(RECIPE)
    return tmp_path


def dlbuild_of(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dlbuild", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main.run(arguments)
    return code, capsys.readouterr().err


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.run(arguments) == 0
    return capsys.readouterr().out


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    assert all(f"  {verb.name} " in text and verb.summary in text for verb in VERBS.values())


def test_without_a_verb_help_is_printed_and_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([]) == 2
    assert capsys.readouterr().out.startswith("usage: dlbuild VERB")


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main.run([verb, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: dlbuild {verb}")


def test_an_unknown_verb_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, "bild") == (
        2,
        "dlbuild: error: there is no verb 'bild'\n  fix: did you mean 'build'?\n",
    )


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, "size", "--jsn") == (
        2,
        "dlbuild size: error: there is no option '--jsn'\n  fix: did you mean '--json'?\n",
    )


def test_a_wrong_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, "build", "-j", "many") == (
        2,
        (
            "dlbuild build: error: argument -j: invalid int value: 'many'\n"
            "  fix: see dlbuild build --help\n"
        ),
    )


@pytest.mark.usefixtures("project")
def test_an_unknown_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, "build", "bord") == (
        2,
        "dlbuild.yaml: error: nothing is built for a target 'bord'\n  fix: did you mean 'board'?\n",
    )


@pytest.mark.usefixtures("project")
def test_a_model_in_place_of_a_target_is_said_to_be_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert failing(capsys, "build", "kws") == (
        2,
        (
            "dlbuild.yaml: error: nothing is built for a target 'kws'\n"
            "  why: 'kws' is a model, and what is built is chosen by targets\n"
            "  fix: name a target that it is built for: pc, board\n"
        ),
    )


@pytest.mark.usefixtures("project")
def test_a_fault_of_the_recipe_is_printed_with_its_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("dlbuild.yaml").write_text(RECIPE.replace("memories", "memorys"))
    assert failing(capsys, "check") == (
        2,
        (
            "dlbuild.yaml:5:32: error: target 'board' has no key 'memorys'\n"
            "  5 |   board: {extends: cortex-m4f, memorys: {sram: 48 KiB}}\n"
            "    |                                ^\n"
            "  fix: did you mean 'memories'?\n"
        ),
    )


@pytest.mark.usefixtures("project")
def test_a_build_that_fails_has_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = failing(capsys, "build", "pc")
    assert code == 1
    assert error.startswith("kws.onnx: error: ")


@pytest.mark.usefixtures("project")
def test_what_the_disk_refuses_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("build").write_text("in the way")
    assert failing(capsys, "build") == (
        1,
        (
            "build/dlbuild: error: cannot write here: Not a directory\n"
            "  fix: name another build folder with -B DIR\n"
        ),
    )


def test_an_option_with_a_value_may_stand_before_the_verb(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert failing(capsys, "-j", "4", "bild")[1].startswith(
        "dlbuild: error: there is no verb 'bild'"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_each_option_with_a_value_may_stand_before_the_verb(verb: str) -> None:
    parser = parser_of(verb, "")
    import_module(VERBS[verb].module).arguments(parser)
    taking = [action for action in parser._actions if action.option_strings and action.nargs != 0]
    missing = [a.option_strings for a in taking if not {*a.option_strings} <= {*VALUE_OPTIONS}]
    assert not missing


@pytest.mark.usefixtures("project")
def test_a_fault_of_ours_is_told_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dlbuild.cli.check", None)
    code, error = failing(capsys, "check")
    assert code == 3
    assert error == (
        "internal error: ModuleNotFoundError: import of dlbuild.cli.check halted; "
        "None in sys.modules\n"
        "  why: a fault of dlbuild, not of your files\n"
        "  fix: report it with build/dlbuild/.dlbuild/internal-error.txt\n"
    )
    trace = Path("build/dlbuild/.dlbuild/internal-error.txt").read_text()
    assert trace.startswith("Traceback (most recent call last):\n")


@pytest.mark.usefixtures("project")
def test_a_traceback_is_shown_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dlbuild.cli.check", None)
    code, error = failing(capsys, "check", "--debug")
    assert code == 3
    assert error.startswith("Traceback (most recent call last):\n")


@pytest.mark.usefixtures("project")
def test_check_counts_what_it_read(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "check")
    assert text.startswith("1 model, 2 targets, 2 builds, ")
    assert text.endswith(" rules: no fault found\n")


@pytest.mark.usefixtures("project")
def test_the_resolved_recipe_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    before = printed(capsys, "config", "--json")
    text = printed(capsys, "config", "--resolved")
    assert yaml.safe_load(text)["targets"]["board"]["memories"]["sram"]["size"] == "49152 B"
    Path("dlbuild.yaml").write_text(text)
    assert printed(capsys, "config", "--json") == before


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ("extends: host", "resources: {cores: 4}"),
        ("extends: host", "resources: {pes: 2}, schedule: split"),
        ("extends: host", "registers: {lanes: 4}"),
        ("extends: host", "dma: {align: 8 B}"),
        ("extends: host", "stack: 2 KiB"),
        ("extends: host", "profile: times.json"),
        ("extends: host", "cycles: {int8: 2 /MAC}"),
        ("extends: host", "kernels: {conv_pairs: {mac: 0.5, output: 2.0}}"),
        (
            "extends: host",
            "memories: {near: {holds: [tiles], copy: {setup: 40 cycles, rate: 4 B/cycle}}}",
        ),
        ("source: kws.onnx", "shapes: {image: [1, 8]}"),
        ("source: kws.onnx", "tolerance: {lsb: 2}"),
        ("source: kws.onnx", "state: {new: old, after: before}"),
        ("source: kws.onnx", "batch: {inputs: [image], parts: 2}"),
        ("source: kws.onnx", "parallel: model"),
        (
            "source: kws.onnx",
            "image_slot: 64 KiB, image_version: 3, image_address: 0x1000, weights: image",
        ),
    ],
)
def test_each_key_of_a_target_or_a_model_is_in_the_resolved_recipe(
    entry: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = printed(capsys, "config", "--json")
    Path("dlbuild.yaml").write_text(RECIPE.replace(entry, f"{entry}, {key}"))
    before = printed(capsys, "config", "--json")
    assert before != plain
    Path("dlbuild.yaml").write_text(printed(capsys, "config"))
    assert printed(capsys, "config", "--json") == before


@pytest.mark.usefixtures("project")
def test_an_override_is_in_the_resolved_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(printed(capsys, "config", "--json", "-D", "optimize=ram"))
    assert [build["options"]["optimize"] for build in content["builds"]] == ["ram", "ram"]


@pytest.mark.usefixtures("project")
def test_outputs_are_known_without_building(capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = json.loads(printed(capsys, "outputs", "board", "--json"))
    assert (entry["model"], entry["target"]) == ("kws", "board")
    assert entry["files"]["source"] == "build/dlbuild/board/kws/kws.c"
    assert "weights_binary" not in entry["files"]
    assert printed(capsys, "outputs", "pc").splitlines()[0] == (
        "build/dlbuild/pc/kws/plan/1-graph.json"
    )


@pytest.mark.usefixtures("project")
def test_outputs_as_variables(capsys: pytest.CaptureFixture[str]) -> None:
    given = printed(capsys, "outputs", "pc", "--make").splitlines(keepends=True)
    assert given[2].startswith("DLBUILD_RECIPE_FILES := /")
    del given[2]
    assert "".join(given) == (
        "DLBUILD_MODELS := kws\n"
        "DLBUILD_TARGETS := pc\n"
        "DLBUILD_pc_kws_HEADERS := build/dlbuild/pc/kws/kws.h"
        " build/dlbuild/pc/kws/kws_weights.h\n"
        "DLBUILD_pc_kws_SOURCES := build/dlbuild/pc/kws/kws.c"
        " build/dlbuild/pc/kws/kws_weights.c\n"
        "DLBUILD_pc_kws_BINARIES :=\n"
        "DLBUILD_pc_kws_IMAGES :=\n"
        "DLBUILD_pc_kws_PORT :=\n"
        "DLBUILD_pc_kws_ARCHIVE := build/dlbuild/pc/kws/libkws.a\n"
    )
    assert printed(capsys, "outputs", "pc", "--cmake").splitlines()[-1] == (
        "set(DLBUILD_pc_kws_ARCHIVE [==[build/dlbuild/pc/kws/libkws.a]==])"
    )


@pytest.mark.usefixtures("project")
def test_outputs_follow_the_build_folder(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "outputs", "pc", "-B", "elsewhere")
    assert text.startswith("elsewhere/pc/kws/")


@pytest.mark.usefixtures("project")
def test_clean_leaves_what_it_did_not_make(capsys: pytest.CaptureFixture[str]) -> None:
    mine = Path("build/dlbuild/pc/kws/mine.txt")
    mine.parent.mkdir(parents=True)
    mine.write_text("")
    assert printed(capsys, "clean") == "removed 0 files\n"
    assert mine.exists()


def test_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "rules", "--markdown").splitlines()
    assert lines[0] == "| Operator | Opsets | What it computes | Rule | Conditions |"
    assert any(line.startswith("| Conv | ") for line in lines)
    names = [row["operator"] for row in json.loads(printed(capsys, "rules", "--json"))]
    assert "com.microsoft.QGemm" in names


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(printed(capsys, "schema"))
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "version") == f"{dlbuild.__version__}\n"
    assert json.loads(printed(capsys, "version", "--json")) == {"version": dlbuild.__version__}
    assert printed(capsys, "--version") == f"{dlbuild.__version__}\n"


def test_the_folder_option_goes_there_first(project: Path) -> None:
    done = dlbuild_of("outputs", "-C", str(project), "pc", cwd=project.parent)
    assert done.stdout.startswith("build/dlbuild/pc/kws/")
    assert dlbuild_of(f"-C{project}", "outputs", "pc", cwd=project.parent).stdout == done.stdout


def test_a_folder_that_is_not_there_is_refused() -> None:
    done = dlbuild_of("-C", "/none", "build")
    assert (done.returncode, done.stderr) == (
        2,
        "/none: error: cannot go there: No such file or directory\n",
    )


def test_the_number_of_jobs_is_not_part_of_a_request() -> None:
    assert request_of(["build", "-j", "4", "pc"]) == (["build", "pc"], "build/dlbuild")
    assert request_of(["-j4", "build", "-B", "out"]) == (["build", "-Bout"], "out")
    assert request_of(["build", "-D", "optimize=ram"])[0] == ["build", "-D", "optimize=ram"]
