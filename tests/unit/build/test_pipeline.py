"""The table of stages against the code of the stages."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dlbuild.build.code import CodeDigests
from dlbuild.build.pipeline import PIPELINE, with_verify
from dlbuild.build.stage import FILES, Stage
from dlbuild.ir.target import Cluster, Options, Target

ROOT = Path(__file__).parents[3]
CODE = CodeDigests()
STAGES = (*PIPELINE.stages, with_verify(layers=False).stages[-1])
OPTIONS = {field.name for field in fields(Options)}
TARGET = {field.name for field in fields(Target)}
# `name` is in many values besides targets; a missing one would show as an empty word in a file.
AMBIGUOUS = {"name"}


def texts(stage: Stage) -> list[str]:
    """Return the text of each module that a stage reaches, those of this floor left out."""
    modules = [name for name in CODE.reachable(stage.module) if ".build." not in name]
    paths = [ROOT.joinpath(*name.split(".")) for name in modules]
    return [path.with_suffix(".py").read_text() for path in paths if not path.is_dir()]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_declares_each_setting_that_its_code_reads(stage: Stage) -> None:
    options, target = set(), set()
    for text in texts(stage):
        options |= OPTIONS & set(re.findall(r"\boptions\.(\w+)", text))
        target |= TARGET & set(re.findall(r"\btarget\.(\w+)", text))
    assert options <= {*stage.options}
    counting = {"toolchain"} if stage.counting else set[str]()
    assert target - AMBIGUOUS <= {*stage.target, *counting}


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_stage_declares_the_libraries_that_its_code_imports(stage: Stage) -> None:
    known = {"yaml": "pyyaml"} | {n: n for n in ("onnx", "numpy", "jinja2", "ml_dtypes")}
    imported = {
        known[name]
        for text in texts(stage)
        for name in re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE)
        if name in known
    }
    assert imported <= {*stage.libraries}


@pytest.mark.parametrize("clusters", [(), (Cluster("left"), Cluster("right"))])
def test_each_file_is_made_once_and_before_it_is_read(clusters: tuple[Cluster, ...]) -> None:
    made: list[str] = []
    for stage in with_verify(layers=True).on(Target("t", clusters=clusters)).stages:
        assert set(stage.reads) <= set(made), stage.name
        made += stage.makes
    assert len(made) == len(set(made))


def test_each_file_that_is_written_is_made() -> None:
    assert set(FILES) - {"depfile"} <= set(PIPELINE.maker)


def test_gates_read_what_is_made_and_stop_stages_that_exist() -> None:
    names = {stage.name for stage in PIPELINE.stages}
    for gate in PIPELINE.gates:
        assert set(gate.needs) <= set(PIPELINE.maker)
        assert set(gate.before) <= names
