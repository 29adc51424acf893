"""The machinery of a build, with a small pipeline of its own."""

import importlib
import json
import os
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dlbuild.base.errors import UserError
from dlbuild.build.builder import How, build
from dlbuild.build.cache import open_store
from dlbuild.build.engine import Engine, Finished
from dlbuild.build.forecast import forecast
from dlbuild.build.keys import KeyMaker
from dlbuild.build.ledger import read_ledger
from dlbuild.build.recipe import read_recipe
from dlbuild.build.stage import Gate, Pipeline, Stage

UPPER = """
def run(job):
    text = job.settings.source.read_text()
    words, _, numbers = text.partition(":")
    return {"graph": words.strip().upper().encode(), "weights": numbers.strip().encode()}

def files(source):
    extra = source.parent / "extra.bin"
    return {"extra.bin": extra} if extra.exists() else {}
"""
PLAN = """
import fake_helper

def run(job):
    return {"profile": fake_helper.prefix() + job.inputs["graph"]}
"""
HELPER = """
def prefix():
    return b"plan of "
"""
WRITE = """
def run(job):
    mode = job.settings.options.optimize.encode()
    return {"source": mode + b" " + job.inputs["profile"]}
"""
TABLES = """
def run(job):
    return {"weights_source": b"table " + job.inputs["weights"]}
"""
GATE = """
from dlbuild.base.errors import UserError

def check(target, models):
    total = sum(len(model.files["profile"]) for model in models)
    if total > 100:
        raise UserError(f"{total} is too long", where=target.name)
"""

PIPELINE = Pipeline(
    stages=(
        Stage("parse", "fake_parse", makes=("graph", "weights"), model=("source",)),
        Stage("plan", "fake_plan", reads=("graph",), makes=("profile",)),
        Stage("write", "fake_write", reads=("profile",), makes=("source",), options=("optimize",)),
        Stage("tables", "fake_tables", reads=("weights",), makes=("weights_source",)),
    ),
    gates=(Gate("length", "fake_gate", needs=("profile",), before=("write",)),),
)


@dataclass
class Project:
    """A folder with a recipe and a pipeline of fake stages in it."""

    cache: Path
    out: Path = Path("out")
    overrides: list[str] = field(default_factory=list)

    def build(self, jobs: int = 1, *, keep_going: bool = False) -> list[str]:
        """Build and return the stages that needed work, in order."""
        forget_fakes()
        done: list[Finished] = []
        recipe = read_recipe(overrides=self.overrides)
        labels = tuple(one.label for one in recipe.builds)
        how = How(self.out, jobs, keep_going, labels)
        build(recipe, PIPELINE, how, lambda command: command, done.append)
        return [f"{one.label} {one.stage}{'' if one.was_run else ' (stored)'}" for one in done]

    def explain(self) -> dict[str, str]:
        recipe = read_recipe(overrides=self.overrides)
        state = self.out / ".dlbuild"
        engine = Engine(
            KeyMaker(recipe, lambda command: command),
            open_store(state),
            read_ledger(state / "ledger.json"),
            self.out,
            lambda _: None,
        )
        return {
            line.stage: f"{line.state}: {'; '.join(line.reasons)} | {line.last}"
            for line in forecast(engine, PIPELINE, recipe.builds[0])
        }

    def content(self, name: str) -> str:
        return (self.out / name).read_text()


def forget_fakes() -> None:
    """Each build is a process of its own, so that an edited module is imported anew."""
    for name in [name for name in sys.modules if name.startswith("fake_")]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def project(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    modules = {
        "fake_parse": UPPER,
        "fake_plan": PLAN,
        "fake_write": WRITE,
        "fake_tables": TABLES,
        "fake_gate": GATE,
        "fake_helper": HELPER,
    }
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "a.onnx").write_text("one two: 1 2")
    (tmp_path / "dlbuild.yaml").write_text(
        textwrap.dedent("""\
            version: 1
            models:
              a: {source: a.onnx}
            targets:
              pc: {extends: host}
        """)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget_fakes()
    return Project(cache)


def times(folder: Path) -> dict[str, int]:
    return {
        path.as_posix(): path.stat().st_mtime_ns
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".dlbuild" not in path.parts
    }


ALL = ["a@pc parse", "a@pc plan", "a@pc write", "a@pc tables"]


def test_the_first_build_runs_every_stage_and_writes_its_files(project: Project) -> None:
    assert sorted(project.build()) == sorted(ALL)
    assert project.content("pc/a/plan/1-graph.json") == "ONE TWO"
    assert project.content("pc/a/a.c") == "speed plan of ONE TWO"
    assert project.content("pc/a/a_weights.c") == "table 1 2"


def test_a_second_build_runs_nothing_and_touches_no_file(project: Project) -> None:
    project.build()
    before = times(project.out)
    assert project.build() == []
    assert times(project.out) == before


def test_equal_results_stop_what_comes_after_them(project: Project) -> None:
    project.build()
    before = times(project.out)
    Path("a.onnx").write_text("One Two: 1 2")
    assert project.build() == ["a@pc parse"]
    assert times(project.out) == before


def test_new_weights_leave_the_plan_and_the_source_alone(project: Project) -> None:
    project.build()
    before = times(project.out)
    Path("a.onnx").write_text("one two: 3 4")
    assert project.build() == ["a@pc parse", "a@pc tables"]
    changed = [name for name, time in times(project.out).items() if before[name] != time]
    assert changed == ["out/pc/a/a_weights.c"]


def test_an_option_reaches_only_the_stages_that_see_it(project: Project) -> None:
    project.build()
    project.overrides = ["optimize=ram"]
    assert project.build() == ["a@pc write"]
    assert project.content("pc/a/a.c") == "ram plan of ONE TWO"


def test_going_back_takes_results_from_the_store(project: Project) -> None:
    project.build()
    Path("a.onnx").write_text("three: 1 2")
    project.build()
    Path("a.onnx").write_text("one two: 1 2")
    assert project.build() == [f"{name} (stored)" for name in ALL[:3]]
    assert project.content("pc/a/a.c") == "speed plan of ONE TWO"


@pytest.mark.reported("c11_stale_after_weight_change")
def test_same_size_and_time_in_place_is_noticed(project: Project) -> None:
    project.build()
    status = Path("a.onnx").stat()
    Path("a.onnx").write_text("one six: 1 2")
    os.utime("a.onnx", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "a@pc parse" in project.build()
    assert project.content("pc/a/a.c") == "speed plan of ONE SIX"


@pytest.mark.parametrize("damage", ["truncate", "edit", "delete"])
def test_a_damaged_output_is_written_again(project: Project, damage: str) -> None:
    project.build()
    path = Path("out/pc/a/a.c")
    content = path.read_text()
    match damage:
        case "truncate":
            path.write_text(content[:3])
        case "edit":
            path.write_text(content.replace("plan", "plot"))
        case _:
            path.unlink()
    project.build()
    assert path.read_text() == content


@pytest.mark.parametrize("content", [b"", b"garbage", b"{}"])
def test_damaged_state_is_made_anew(project: Project, content: bytes) -> None:
    project.build()
    for path in (*Path("out/.dlbuild").rglob("*"), *project.cache.rglob("*")):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(content)
    project.build()
    assert project.content("pc/a/a.c") == "speed plan of ONE TWO"
    assert project.build() == []


def test_a_flipped_bit_in_the_store_runs_the_stage_again(project: Project) -> None:
    project.build()
    for path in (project.cache / "v1" / "cas").rglob("*"):
        if path.is_file() and path.stat().st_size:
            path.chmod(0o644)
            content = bytearray(path.read_bytes())
            content[0] ^= 1
            path.write_bytes(content)
    assert sorted(project.build()) == sorted(ALL)
    assert project.content("pc/a/a.c") == "speed plan of ONE TWO"


def test_a_store_that_is_deleted_again_and_again_only_costs_time(project: Project) -> None:
    Path("fake_plan.py").write_text(
        "import shutil\n" + PLAN.replace("return", f"shutil.rmtree({str(project.cache)!r}); return")
    )
    Path("fake_tables.py").write_text(
        "import shutil\n"
        + TABLES.replace("return", f"shutil.rmtree({str(project.cache)!r}); return")
    )
    project.build()
    assert project.content("pc/a/a.c") == "speed plan of ONE TWO"
    assert project.content("pc/a/a_weights.c") == "table 1 2"


def test_an_edit_during_a_stage_is_not_lost(project: Project) -> None:
    Path("fake_parse.py").write_text(
        UPPER.replace(
            "words, _, numbers",
            'edit = job.settings.source.write_text("late: 9") if "two" in text else None\n'
            "    words, _, numbers",
        )
    )
    project.build()
    assert project.content("pc/a/a.c") == "speed plan of LATE"
    assert project.content("pc/a/a_weights.c") == "table 9"


def test_code_that_a_stage_imports_is_in_its_key(project: Project) -> None:
    project.build()
    Path("fake_helper.py").write_text(HELPER + "# a remark\n")
    parts = KeyMaker(read_recipe(), str).code.reachable("fake_plan")
    assert list(parts) == ["fake_plan"], "another top package counts by its version"
    Path("fake_plan.py").write_text(PLAN + "# a remark\n")
    assert project.build() == ["a@pc plan"]


def test_a_failed_check_keeps_the_stage_behind_it_from_running(project: Project) -> None:
    Path("a.onnx").write_text(f"{'long ' * 30}: 1")
    with pytest.raises(ExceptionGroup) as caught:
        project.build()
    assert [str(error) for error in caught.value.exceptions] == ["pc: error: 157 is too long"]
    assert not Path("out/pc/a/a.c").exists()


def test_what_was_finished_before_a_failure_is_remembered(project: Project) -> None:
    Path("fake_write.py").write_text("def run(job):\n    raise ValueError('no')\n")
    with pytest.raises(ExceptionGroup):
        project.build()
    Path("fake_write.py").write_text(WRITE)
    assert project.build()[0] == "a@pc write"


def test_other_builds_go_on_after_a_failure_if_asked(project: Project) -> None:
    Path("bad.onnx").write_bytes(b"\xff\xfe")
    recipe = Path("dlbuild.yaml").read_text()
    Path("dlbuild.yaml").write_text(
        recipe.replace("a: {", "bad: {source: bad.onnx}\n  a: {").replace(
            "targets:",
            "builds: [{model: bad, target: pc}, {model: a, target: other}]\ntargets:\n"
            "  other: {extends: host}",
        )
    )
    with pytest.raises(ExceptionGroup):
        project.build(keep_going=True)
    assert project.content("other/a/a.c") == "speed plan of ONE TWO"


def test_two_targets_share_what_does_not_depend_on_them(project: Project) -> None:
    recipe = Path("dlbuild.yaml").read_text()
    Path("dlbuild.yaml").write_text(f"{recipe}  two: {{extends: host}}\n")
    done = project.build(jobs=2)
    assert sum(name.endswith("parse") for name in done) == 1
    assert sum(name.endswith("parse (stored)") for name in done) == 1


def test_threads_change_no_byte(project: Project) -> None:
    recipe = Path("dlbuild.yaml").read_text()
    Path("dlbuild.yaml").write_text(f"{recipe}  two: {{extends: host}}\n")
    project.build(jobs=1)
    first = {path: (project.out / path).read_bytes() for path in ("pc/a/a.c", "two/a/a.c")}
    project.out = Path("other")
    project.build(jobs=4)
    assert {path: (project.out / path).read_bytes() for path in first} == first


@pytest.mark.reported("c11_stale_after_weight_change")
def test_external_data_is_an_input(project: Project) -> None:
    Path("extra.bin").write_bytes(b"1")
    project.build()
    Path("extra.bin").write_bytes(b"2")
    assert project.build() == ["a@pc parse"]


def test_files_of_a_build_that_is_gone_are_removed(project: Project) -> None:
    project.build()
    recipe = Path("dlbuild.yaml").read_text()
    Path("dlbuild.yaml").write_text(recipe.replace("pc:", "mine:"))
    project.build()
    assert not Path("out/pc").exists()
    assert project.content("mine/a/a.c") == "speed plan of ONE TWO"


def test_a_depfile_names_what_the_user_may_edit(project: Project) -> None:
    Path("extra.bin").write_bytes(b"1")
    project.build()
    assert project.content("pc/a/a.d") == (
        "out/pc/a/a.c out/pc/a/a_weights.c out/pc/a/plan/1-graph.json"
        " out/pc/a/plan/2-profile.json: \\\n"
        "  a.onnx \\\n"
        "  dlbuild.yaml \\\n"
        "  extra.bin\n"
    )


def test_a_comment_in_the_recipe_runs_nothing(project: Project) -> None:
    project.build()
    Path("dlbuild.yaml").write_text("# mine\n" + Path("dlbuild.yaml").read_text())
    assert project.build() == []


def test_no_path_is_in_a_key(project: Project, tmp_path: Path) -> None:
    project.build()
    ledger = json.loads(Path("out/.dlbuild/ledger.json").read_bytes())
    assert tmp_path.name not in json.dumps(ledger["records"])


def test_explain_says_what_a_build_would_do(project: Project) -> None:
    project.build()
    Path("a.onnx").write_text("one two: 3 4")
    said = project.explain()
    first = "ran in build 1: it was not made before ->"
    assert said == {
        "parse": f"would run: a.onnx changed | {first} structure of the model and weights changed",
        "plan": f"depends: on what parse makes | {first} profile changed",
        "write": f"depends: on what plan makes | {first} C source changed",
        "tables": f"depends: on what parse makes | {first} weight tables changed",
    }


def test_explain_says_what_a_build_did(project: Project) -> None:
    project.build()
    Path("a.onnx").write_text("one two: 3 4")
    project.build()
    said = project.explain()
    assert said["parse"] == (
        "up to date:  | ran in build 2: a.onnx changed"
        " -> weights changed, structure of the model did not"
    )
    assert said["tables"].endswith("ran in build 2: the weights changed -> weight tables changed")
    assert said["plan"].endswith("ran in build 1: it was not made before -> profile changed")


def test_explain_names_an_option(project: Project) -> None:
    project.build()
    project.overrides = ["optimize=size"]
    said = project.explain()["write"].partition(" |")[0]
    assert said == 'would run: option optimize changed from "speed" to "size"'


def test_a_folder_that_cannot_be_written_is_an_error(project: Project) -> None:
    Path("out").write_text("a file")
    with pytest.raises(UserError) as caught:
        project.build()
    assert str(caught.value) == (
        "out: error: cannot write here: Not a directory\n"
        "  fix: name another build folder with -B DIR"
    )
