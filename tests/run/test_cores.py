"""Nets on several threads of this machine: right values, no race, no dead end."""

import re
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
import yaml

from dlbuild.base.errors import UserError
from dlbuild.build.builder import How, build
from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.main import run
from dlbuild.ir import weights
from dlbuild.run.board import boards_folder
from dlbuild.run.runner import Built, model_program, run_model
from dlbuild.run.runner_program import Program, compiler_for
from dlbuild.run.samples import samples_of
from dlbuild.run.toolchain import identify
from dlbuild.run.verify import SERIAL, Checks, Verdict, verify

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
RACES = "-fsanitize=thread"


def project(
    folder: Path,
    model: str | Path,
    target: dict[str, object],
    options: Mapping[str, str] | None = None,
) -> tuple[Engine, Build]:
    """Build one of the digits nets, or a model of a path, for a target of this machine."""
    recipe = {
        "version": 1,
        "models": {"digits": {"source": str(DIGITS / f"{model}.onnx"), **(options or {})}},
        "targets": {"here": {"extends": "host", **target}},
    }
    (folder / "dlbuild.yaml").write_text(yaml.safe_dump(recipe))
    read = read_recipe()
    return build(read, PIPELINE, How(), identify, lambda _: None), read.builds[0]


def verdict_of(engine: Engine, one: Build, checks: Checks) -> Verdict:
    built = built_of(engine, one)
    model = engine.keys.recipe.models[one.model]
    samples = samples_of(model.samples, built.graph)
    numbers = weights.decode(engine.content(one, "weights"))
    return verify(built, numbers, model.source, samples, checks)


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("schedule", ["auto", "list", "round_robin", "split"])
@pytest.mark.parametrize("model", ["digits", "digits_int8"])
def test_threads_compute_what_the_model_does(tmp_path: Path, model: str, schedule: str) -> None:
    engine, one = project(tmp_path, model, {"resources": {"threads": 3}, "schedule": schedule})
    verdict = verdict_of(engine, one, Checks(layers=True, n_runs=4))
    assert verdict.passed
    assert verdict.layers


@pytest.mark.parametrize("kind", ["cores", "pes"])
def test_cores_and_processing_elements_do_too(tmp_path: Path, kind: str) -> None:
    target: dict[str, object] = {"resources": {kind: 2}}
    engine, one = project(tmp_path, "digits_int8", target)
    assert verdict_of(engine, one, Checks(n_runs=2)).passed


def test_a_run_may_have_nothing_of_the_caller(tmp_path: Path) -> None:
    target: dict[str, object] = {"resources": {"cores": 2}}
    ends = {"input": "arena", "output": "arena"}
    engine, one = project(tmp_path, "digits_int8", target, ends)
    assert verdict_of(engine, one, Checks(n_runs=2)).passed


def test_tensors_may_have_the_names_that_the_code_of_cores_uses(tmp_path: Path) -> None:
    model = onnx.load(DIGITS / "digits.onnx")
    names = {model.graph.input[0].name: "base", model.graph.output[0].name: "job"}
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    model.graph.input[0].name, model.graph.output[0].name = "base", "job"
    onnx.save(model, tmp_path / "renamed.onnx")
    target: dict[str, object] = {"resources": {"threads": 2}}

    engine, one = project(tmp_path, tmp_path / "renamed", target)

    assert verdict_of(engine, one, Checks(n_runs=2)).passed


def test_threads_have_no_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSAN_OPTIONS", "exitcode=66")
    engine, one = project(tmp_path, "digits_int8", {"resources": {"threads": 3}})
    program = program_of(built_of(engine, one), tmp_path, RACES)
    assert outputs_of(built_of(engine, one), program)


def test_a_missing_wait_is_a_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSAN_OPTIONS", "exitcode=66")
    target: dict[str, object] = {"resources": {"threads": 3}, "schedule": "split"}
    engine, one = project(tmp_path, "digits_int8", target)
    built = built_of(engine, one)
    source = built.folder / "digits.c"
    text = source.read_text()
    # All waits between layers; those for the start and the end stand deeper.
    text = re.sub(r"^    dlb_wait\([012]U, base \+ \d+U\);\n", "", text, flags=re.MULTILINE)
    source.write_text(text)
    program = program_of(built, tmp_path, RACES)
    with pytest.raises(UserError, match="exit 66"):
        outputs_of(built, program)


def test_a_core_that_waits_for_ever_is_named(tmp_path: Path) -> None:
    target: dict[str, object] = {"resources": {"threads": 2}, "features": ["fpu"]}
    engine, one = project(tmp_path, "digits_int8", target)
    built = built_of(engine, one)
    source = built.folder / "digits.c"
    text = source.read_text()
    first = re.search(r"^    dlb_signal\(1U, .*\n", text, flags=re.MULTILINE)
    assert first is not None
    source.write_text(text.replace(first[0], ""))
    compiler = compiler_for(built.target, (SERIAL,))
    sources = [built.folder / "digits_weights.c", boards_folder() / "cores_serial.c"]
    program = compiler.program(model_program(built), "serial", sources, tmp_path)
    with pytest.raises(UserError) as caught:
        outputs_of(built, program)
    assert "deadlock: core 0 waits for core 1" in str(caught.value)


def test_fragments_name_the_port_of_the_cores(tmp_path: Path) -> None:
    engine, one = project(tmp_path, "digits_int8", {"resources": {"threads": 2}})
    made = {name: engine.content(one, name).decode() for name in ("make", "cmake")}
    assert "DIGITS_PORT := $(DIGITS_FOLDER)/dlb_port_cores.c\n" in made["make"]
    assert '"${CMAKE_CURRENT_LIST_DIR}/dlb_port_cores.c")' in made["cmake"]
    assert (built_of(engine, one).folder / "dlb_port_cores.c").is_file()


def program_of(built: Built, work: Path, *flags: str) -> Program:
    sources = [built.folder / "digits_weights.c", *built.ports(is_honest=True)]
    text = model_program(built)
    return compiler_for(built.target, flags).program(text, "run", sources, work)


def outputs_of(built: Built, program: Program) -> object:
    samples = [sample.inputs for sample in samples_of(None, built.graph)]
    return run_model(built, program, samples, 3)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"hook": True}, "'hook: true' does not go with 2 threads"),
        ({"max_recompute": 1.5}, "'max_recompute: 1.5' does not go with 2 threads"),
        (
            {"input": "streamed", "output": "arena"},
            "'input: streamed' does not go with 2 threads",
        ),
        (
            {"memories": {"near": {"size": "4 KiB", "holds": ["tiles"]}}},
            "memory 'near' holds tiles, which does not go with 2 threads",
        ),
    ],
)
def test_what_does_not_go_with_several_cores_is_refused(
    tmp_path: Path, target: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = {
        "version": 1,
        "models": {"digits": {"source": str(DIGITS / "digits_int8.onnx")}},
        "targets": {"here": {"extends": "host", "resources": {"threads": 2}, **target}},
    }
    if "memories" not in target:
        options = {key: target[key] for key in target}
        recipe["targets"] = {"here": {"extends": "host", "resources": {"threads": 2}}}
        recipe["builds"] = [{"model": "digits", "target": "here", **options}]
    (tmp_path / "dlbuild.yaml").write_text(yaml.safe_dump(recipe))
    assert run(("build",)) == 1
    assert message in capsys.readouterr().err
