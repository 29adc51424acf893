"""What a change reaches: real models, built as a user builds them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
RECIPE = """\
version: 1
models:
  net: {source: net.onnx}
targets:
  pc: {extends: host}
"""


Outputs = Mapping[str, tuple[int, bytes]]
"""Time and content of each file."""


@dataclass
class Project:
    """A folder with the digits network in it, built by the command line in other processes."""

    folder: Path

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dlbuild", *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def build(self, *arguments: str, **environment: str) -> list[str]:
        """Build and return the stages that needed work."""
        done = self.run("build", *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return [
            line.partition(": ")[2].rpartition(" (")[0]
            for line in done.stdout.splitlines()
            if ": " in line
        ]

    def explain(self) -> Mapping[str, str]:
        """Return what was said of each stage's last time."""
        said = json.loads(self.run("explain", "--json").stdout)
        return {line["stage"]: line["last"] for line in said["stages"]["net@pc"]}

    def snapshot(self) -> Outputs:
        """Return time and content of every output."""
        out = self.folder / "build" / "dlbuild"
        return {
            path.relative_to(out).as_posix(): (path.stat().st_mtime_ns, path.read_bytes())
            for path in sorted(out.rglob("*"))
            if path.is_file() and ".dlbuild" not in path.parts
        }

    def change_weights(self, seed: int) -> None:
        """Give every float constant new random values, as training again would."""
        path = self.folder / "net.onnx"
        model = onnx.load(path)
        rng = np.random.default_rng(seed)
        for tensor in model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float32:
                values = rng.normal(size=array.shape).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        onnx.save(model, path)

    def write_recipe(self, text: str) -> None:
        (self.folder / "dlbuild.yaml").write_text(text)


def changed(
    before: Mapping[str, tuple[int, bytes]], after: Mapping[str, tuple[int, bytes]]
) -> set[str]:
    """Return the names of outputs that were written again."""
    return {Path(name).name for name in after if before.get(name) != after[name]}


@pytest.fixture
def project(tmp_path: Path, cache: Path) -> Project:  # noqa: ARG001 - its own
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "net.onnx")
    (tmp_path / "dlbuild.yaml").write_text(RECIPE)
    time.sleep(0.05)  # an input as young as the build leaves no snapshot
    return Project(tmp_path)


@pytest.mark.reported("c12_no_op_rebuild_touches")
def test_a_build_with_nothing_to_do_imports_nothing_heavy_and_touches_no_file(
    project: Project,
) -> None:
    project.build()
    before = {
        path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns)
        for path in sorted(project.folder.rglob("*"))
    }
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dlbuild", "build"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "nothing to do\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "dlbuild.build.fastpath" in imported
    heavy = ("doit", "onnx", "numpy", "jinja2", "yaml", "argparse", "dataclasses", "pathlib")
    assert not imported & {*heavy, "dlbuild.cli.main", "dlbuild.build.recipe"}
    after = {
        path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns)
        for path in sorted(project.folder.rglob("*"))
    }
    assert after == before


class TestNewNumbersAlone:
    """Builds in which nothing but numbers of a model changed: without the recipe, rules or onnx."""

    def imported(self, project: Project, *arguments: str) -> tuple[str, set[str]]:
        """Build; return what was said and the modules that it took."""
        time.sleep(0.05)
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "dlbuild", "build", *arguments],
            cwd=project.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stderr.splitlines()
        return done.stdout, {line.rpartition("|")[2].strip() for line in lines}

    def require_clean(self, project: Project, elsewhere: Path) -> None:
        """Compare with a clean build of the same files."""
        elsewhere.mkdir()
        for name in ("net.onnx", "dlbuild.yaml"):
            shutil.copy(project.folder / name, elsewhere / name)
        other = Project(elsewhere)
        other.build(DLBUILD_CACHE_DIR=str(elsewhere / "cache"))
        found = {name: content for name, (_, content) in project.snapshot().items()}
        assert found == {name: content for name, (_, content) in other.snapshot().items()}

    HEAVY = frozenset({"onnx", "yaml", "jinja2", "doit", "dlbuild.build.recipe", "argparse"})

    def test_take_nothing_heavy_and_give_what_a_clean_build_gives(
        self, project: Project, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        project.build()
        for turn in range(2):
            project.change_weights(turn)
            said, modules = self.imported(project)
            assert "net@pc: tables" in said
            assert "numpy" in modules
            assert modules & self.HEAVY == set()
            self.require_clean(project, tmp_path_factory.mktemp("clean") / "project")
            assert self.imported(project)[0] == "nothing to do\n"
        assert project.explain()["parse"].startswith("ran in build 3: net.onnx changed")

    def test_after_a_command_with_another_result_all_is_looked_at(
        self, project: Project, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        project.build()
        project.build("-D", "hook=true")
        project.build()
        project.build("-D", "hook=true")
        project.change_weights(3)
        said, _ = self.imported(project)
        assert "net@pc: tables" in said
        self.require_clean(project, tmp_path_factory.mktemp("clean") / "project")

    def test_with_another_structure_all_is_looked_at(
        self, project: Project, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        project.build()
        model = onnx.load(project.folder / "net.onnx")
        model.graph.name = "other"
        model.graph.output[0].name, old = "renamed", model.graph.output[0].name
        for node in model.graph.node:
            node.output[:] = ["renamed" if name == old else name for name in node.output]
        onnx.save(model, project.folder / "net.onnx")
        _, modules = self.imported(project)
        assert "onnx" in modules
        self.require_clean(project, tmp_path_factory.mktemp("clean") / "project")

    def test_an_external_file_that_is_new_to_the_model_is_watched(self, project: Project) -> None:
        project.build()
        model = onnx.load(project.folder / "net.onnx")
        path = project.folder / "net.onnx"
        onnx.save(model, path, save_as_external_data=True, location="net.bin", size_threshold=0)
        project.build()
        numbers = project.folder / "net.bin"
        time.sleep(0.05)
        numbers.write_bytes(numbers.read_bytes()[::-1])
        said, _ = self.imported(project)
        assert "net@pc: tables" in said

    def test_a_compiler_that_fails_is_reported_as_ever(self, project: Project) -> None:
        compiler = project.folder / "cc"
        compiler.write_text('#!/bin/sh\nif [ -e broken ]; then exit 1; fi\nexec gcc "$@"\n')
        compiler.chmod(0o755)
        toolchain = f"{{extends: host, toolchain: {{cc: {compiler}}}}}"
        project.write_recipe(RECIPE.replace("{extends: host}", toolchain))
        time.sleep(0.05)
        project.build()
        project.change_weights(1)
        compiler.write_text("#!/bin/sh\nexit 1\n")
        time.sleep(0.05)
        done = project.run("build")
        assert done.returncode == 1
        assert f"{compiler} refuses" in done.stderr

    def test_a_remote_cache_is_asked_as_ever(self, project: Project) -> None:
        project.build()
        project.change_weights(1)
        time.sleep(0.05)
        done = project.run("build", DLBUILD_REMOTE_CACHE="http://127.0.0.1:9")
        assert done.returncode == 0
        assert "127.0.0.1:9" in done.stderr

    def test_the_marks_for_a_build_around_are_left(self, project: Project) -> None:
        marks = ("--stamp", "stamp", "--depfile", "stamp.d")
        project.build(*marks)
        depfile = (project.folder / "stamp.d").read_bytes()
        (project.folder / "stamp.d").unlink()
        then = (project.folder / "stamp").stat().st_mtime_ns
        project.change_weights(1)
        _, modules = self.imported(project, *marks)
        assert modules & self.HEAVY == set()
        assert (project.folder / "stamp.d").read_bytes() == depfile
        assert (project.folder / "stamp").stat().st_mtime_ns > then


def test_new_weights_change_their_table_alone(project: Project) -> None:
    project.build()
    before = project.snapshot()
    project.change_weights(1)
    assert set(project.build()) <= {"parse", "tables", "compile tables", "size", "archive"}
    assert changed(before, project.snapshot()) <= {
        "net_weights.c",
        "net_weights.o",
        "libnet.a",
        "5-size.json",
    }
    said = project.explain()
    assert said["parse"] == (
        "ran in build 2: net.onnx changed -> weights changed, structure of the model did not"
    )
    assert said["tables"].startswith("ran in build 2: the weights changed -> weight tables changed")
    assert said["compile"].startswith("ran in build 1:")
    assert said["compile tables"].startswith("ran in build 2: the weight tables changed")


def test_going_back_and_forth_compiles_nothing_twice(project: Project) -> None:
    project.build()
    first = project.snapshot()
    original = (project.folder / "net.onnx").read_bytes()
    project.change_weights(1)
    project.build()
    (project.folder / "net.onnx").write_bytes(original)
    done = project.run("build")
    assert "(from the store)" in done.stdout
    assert " s)" not in done.stdout
    contents = {name: content for name, (_, content) in first.items()}
    assert {name: content for name, (_, content) in project.snapshot().items()} == contents


def test_an_edited_object_is_put_right(project: Project) -> None:
    project.build()
    path = project.folder / "build/dlbuild/pc/net/net.o"
    content = path.read_bytes()
    path.write_bytes(content[:100])
    project.build()
    assert path.read_bytes() == content


def test_a_template_edit_is_noticed_and_named(project: Project) -> None:
    pack = project.folder / "pack"
    (pack / "rules").mkdir(parents=True)
    (pack / "templates").mkdir()
    shutil.copy(ROOT / "templates" / "banner.j2", pack / "templates")
    project.write_recipe(RECIPE + "packs: [pack]\n")
    project.build()
    banner = pack / "templates" / "banner.j2"
    banner.write_text(banner.read_text().replace("Generated by", "Made by"))
    assert "render" in project.build()
    source = (project.folder / "build/dlbuild/pc/net/net.c").read_text()
    assert "Made by dlbuild" in source
    assert "template banner.j2 of pack 1 changed" in project.explain()["render"]


def test_an_option_that_changes_nothing_compiles_nothing(project: Project) -> None:
    project.build()
    project.write_recipe(RECIPE.replace("{extends: host}", "{extends: host, stack: 1 MiB}"))
    assert "compile" not in project.build()


@pytest.mark.reported("c13_deterministic")
def test_the_same_bytes_wherever_and_however_it_is_built(
    tmp_path_factory: pytest.TempPathFactory, project: Project
) -> None:
    project.build("-j1", PYTHONHASHSEED="1", LC_ALL="C")
    other = Project(tmp_path_factory.mktemp("a folder elsewhere"))
    for name in ("net.onnx", "dlbuild.yaml"):
        shutil.copy(project.folder / name, other.folder)
    other.build(
        "-j2",
        PYTHONHASHSEED="2",
        LC_ALL="tr_TR.UTF-8",
        TZ="Asia/Tokyo",
        DLBUILD_CACHE_DIR=str(other.folder / "cache"),
    )
    first, second = project.snapshot(), other.snapshot()
    assert list(first) == list(second)
    assert [name for name in first if first[name][1] != second[name][1]] == []


def test_two_builds_at_once_in_one_folder_end_well(project: Project) -> None:
    command = [sys.executable, "-m", "dlbuild", "build"]
    both = [subprocess.Popen(command, cwd=project.folder, stdout=subprocess.PIPE) for _ in range(2)]
    outputs = [process.communicate()[0].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(text.endswith("nothing to do\n") for text in outputs) == [False, True]


def test_a_killed_build_leaves_a_folder_that_builds(project: Project) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dlbuild", "build", "-j1"],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("net@pc: parse")
    process.kill()
    process.wait()
    process.stdout.close()
    assert "parse" not in [
        line.split()[1] for line in project.run("build").stdout.splitlines() if " s)" in line
    ]
    clean = Project(project.folder.parent / "clean")
    clean.folder.mkdir()
    for name in ("net.onnx", "dlbuild.yaml"):
        shutil.copy(project.folder / name, clean.folder)
    clean.build(DLBUILD_CACHE_DIR=str(clean.folder / "cache"))
    ours, theirs = project.snapshot(), clean.snapshot()
    assert {name: ours[name][1] for name in ours} == {name: theirs[name][1] for name in theirs}


def _heeds_interrupts() -> None:
    """Undo what a shell does to jobs in the background: they ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 128 + 15), (signal.SIGINT, 128 + 2)])
def test_a_stopped_build_remembers_what_was_finished(
    project: Project, number: int, code: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dlbuild", "build", "-j2"],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heeds_interrupts,  # noqa: PLW1509 - no thread runs in the test
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("net@pc: parse"):
        pass
    process.send_signal(number)
    process.communicate()
    assert process.returncode == code
    assert "parse" not in project.build()


def test_clean_removes_everything_that_was_made(project: Project) -> None:
    project.build()
    assert project.run("clean").returncode == 0
    assert not (project.folder / "build" / "dlbuild").exists()


def test_too_small_a_memory_stops_before_any_c_is_written(project: Project) -> None:
    project.write_recipe(
        RECIPE.replace("{extends: host}", "{extends: host, memories: {sram: 2 KiB}}")
    )
    done = project.run("build")
    assert done.returncode == 1
    assert done.stderr.startswith("net@pc: error: the arena needs 2,816 B of sram, ")
    assert not list(project.folder.rglob("*.c"))


def test_models_share_the_flash_of_their_target(project: Project) -> None:
    shutil.copy(project.folder / "net.onnx", project.folder / "more.onnx")
    project.write_recipe(
        RECIPE.replace("  net:", "  more: {source: more.onnx}\n  net:").replace(
            "{extends: host}", "{extends: host, memories: {flash: 48 KiB}}"
        )
    )
    done = project.run("build")
    assert done.returncode == 1
    assert done.stderr.startswith("pc: error: the models need ")
    assert "more: code and tables" in done.stderr
    assert not list(project.folder.rglob("*.a"))


def test_a_missing_compiler_is_named(project: Project) -> None:
    project.write_recipe(
        RECIPE.replace("{extends: host}", "{extends: host, toolchain: {cc: no-such-gcc}}")
    )
    done = project.run("build")
    assert (done.returncode, done.stderr) == (
        1,
        (
            "net@pc: error: there is no program 'no-such-gcc'\n"
            "  why: the target's toolchain names it\n"
            "  fix: install it (Debian: apt-get install gcc-no-such), or name another in"
            " 'toolchain'\n"
        ),
    )


def test_nothing_is_written_outside_the_build_folder(project: Project) -> None:
    project.build()
    found = sorted(path.name for path in project.folder.iterdir())
    assert found == ["build", "dlbuild.yaml", "net.onnx"]


def test_a_remark_in_the_recipe_runs_nothing_and_imports_no_library(project: Project) -> None:
    project.build()
    project.write_recipe("# mine\n" + RECIPE)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dlbuild", "build"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "nothing to do\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"onnx", "numpy", "jinja2"}
