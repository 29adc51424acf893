"""Build the example of each outer build tool, change things, and count what runs again.

    python bench/embedding.py [--only GLOB]

Each tool takes two models of `examples/embed` into a program. Seven things are done to the project;
after each the outer build runs twice. How often it starts dlbuild and the C compiler is counted by
programs that stand in for them, and has to be exactly the figure that stands here; the second run
starts neither. At the end the C has to be that of a clean build elsewhere, byte for byte, and the
program has to run. Bazel, which decides by content, has a case of its own (`embedding_bazel.py`).
A tool that is not installed is `skipped`. Ends with `N passed, M failed`; the
exit status is 1 if M > 0.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import embedding_bazel
import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
MODELS = ("digits", "digits_int8")
MODEL_THAT_GOES = "  spare:\n    source: spare.onnx\n"


@dataclass(frozen=True)
class Tool:
    """An outer build. needs: its programs. example: folder in `examples/embed`.

    configure, build: command lines, run in the example's folder; `{stand_ins}` is the folder of the
    programs that count. sources: where the C of a model is, as a pattern. program: what is linked.
    """

    needs: tuple[str, ...]
    example: str
    configure: tuple[str, ...]
    build: tuple[str, ...]
    sources: str
    program: str


def _cmake(generator: str) -> Tool:
    return Tool(
        needs=("cmake", "ninja" if generator == "Ninja" else "make"),
        example="cmake",
        configure=(
            *("cmake", "-G", generator, "-S", ".", "-B", "build"),
            "-DCMAKE_C_COMPILER={stand_ins}/cc",
            "-DDLBUILD_PYTHON={stand_ins}/python",
        ),
        build=("cmake", "--build", "build", "--parallel", "4"),
        sources="build/dlbuild/*/pc/{model}",
        program="build/firmware",
    )


TOOLS: Mapping[str, Tool] = {
    "cmake, ninja": _cmake("Ninja"),
    "cmake, makefiles": _cmake("Unix Makefiles"),
    "make": Tool(
        needs=("make",),
        example="make",
        configure=(),
        build=("make", "-j4", "CC={stand_ins}/cc"),
        sources="build/dlbuild/pc/{model}",
        program="build/firmware",
    ),
    "meson": Tool(
        needs=("meson", "ninja"),
        example="meson",
        configure=("env", "CC={stand_ins}/cc", "meson", "setup", "build"),
        build=("meson", "compile", "-C", "build"),
        sources="build",
        program="build/firmware",
    ),
}


@dataclass(frozen=True)
class Scenario:
    """Something done to a project, and how often that starts dlbuild and the compiler."""

    act: Callable[["Project"], None]
    runs: int
    compiles: int


class Project:
    """A copy of the example of one tool, and its outer build."""

    def __init__(self, tool: Tool, folder: Path) -> None:
        self.tool = tool
        self.folder = folder / "examples" / "embed"
        shutil.copytree(EXAMPLES / "embed", self.folder, ignore=shutil.ignore_patterns("build"))
        shutil.copytree(EXAMPLES / "digits", folder / "examples" / "digits")
        shutil.copy(EXAMPLES / "digits" / "digits.onnx", self.folder / "spare.onnx")
        self.model = folder / "examples" / "digits" / "digits.onnx"
        self.recipe = self.folder / "dlbuild.yaml"
        text = self.recipe.read_text()
        self.recipe.write_text(text.replace("models:\n", f"models:\n{MODEL_THAT_GOES}"))
        self.log = folder / "log"
        self.stand_ins = folder / "stand_ins"
        self.stand_ins.mkdir()
        self._stand_in("cc", "case ' '$*' ' in *' -c '*)", "compile", shutil.which("cc") or "cc")
        builds = "case ' '$*' ' in *' build '*)"
        self._stand_in("dlbuild", builds, "run", f"{sys.executable} -P -m dlbuild")
        self._stand_in("python", builds, "run", sys.executable)

    def _stand_in(self, name: str, case: str, word: str, command: str) -> None:
        """Write a program that notes that it was started and then does what it stands for."""
        path = self.stand_ins / name
        path.write_text(
            f'#!/bin/sh\n{case} echo {word} >>{self.log} ;; esac\nexec {command} "$@"\n'
        )
        path.chmod(0o755)

    def run(self, command: tuple[str, ...]) -> str:
        """Run a command line of the tool and return what it says."""
        environment = {
            **os.environ,
            "PATH": f"{self.stand_ins}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "DLBUILD_CACHE_DIR": str(self.folder / "cache"),
        }
        done = subprocess.run(
            [word.format(stand_ins=self.stand_ins) for word in command],
            cwd=self.folder / self.tool.example,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}"
        return done.stdout

    def build(self) -> tuple[int, int]:
        """Build, and return how often dlbuild and the compiler ran."""
        self.log.write_text("")
        said = self.run(self.tool.build)
        words = self.log.read_text().split()
        assert "warning" not in said.lower(), said
        return words.count("run"), words.count("compile")

    def sources(self, model: str) -> Path:
        """Return the folder of the C of a model."""
        (found,) = (self.folder / self.tool.example).glob(self.tool.sources.format(model=model))
        return found


def touch(project: Project) -> None:
    """Give a model another time."""
    os.utime(project.model)


def retrain(project: Project) -> None:
    """Give a model other weights."""
    model = onnx.load(project.model)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array * np.float32(1.25), tensor.name))
    project.model.write_bytes(model.SerializeToString())


def delete_output(project: Project) -> None:
    """Remove a C file that dlbuild made."""
    (project.sources("digits") / "digits.c").unlink()


def remark(project: Project) -> None:
    """Write a comment into the recipe."""
    project.recipe.write_text("# a remark\n" + project.recipe.read_text())


def remove_model(project: Project) -> None:
    """Remove a model that the program does not use from the recipe, and its file."""
    project.recipe.write_text(project.recipe.read_text().replace(MODEL_THAT_GOES, ""))
    (project.folder / "spare.onnx").unlink()


SCENARIOS: Mapping[str, Scenario] = {
    "first build": Scenario(lambda _: None, 1, 5),
    "nothing done": Scenario(lambda _: None, 0, 0),
    "model touched": Scenario(touch, 1, 0),
    "new weights": Scenario(retrain, 1, 1),
    "C file deleted": Scenario(delete_output, 1, 1),
    "remark in the recipe": Scenario(remark, 1, 0),
    "model removed": Scenario(remove_model, 1, 0),
}


def faults_of(tool: Tool, work: Path) -> list[str]:
    """Do everything to the example of one tool and return what was not as it should be."""
    project = Project(tool, work)
    if tool.configure:
        project.run(tool.configure)
    faults = []
    for name, scenario in SCENARIOS.items():
        scenario.act(project)
        expected = (scenario.runs, scenario.compiles), (0, 0)
        found = project.build(), project.build()
        if found != expected:
            faults.append(f"{name}: dlbuild and compiler ran {found}, expected {expected}")
    clean = work / "clean"
    options = ("--sources", "--target", "pc")
    project.run((sys.executable, "-m", "dlbuild", "build", "-C..", f"-B{clean}", *options))
    for model in MODELS:
        faults += [
            f"{path.name} is not that of a clean build"
            for path in sorted((clean / "pc" / model).glob("*.[ch]"))
            if path.read_bytes() != (project.sources(model) / path.name).read_bytes()
        ]
    if list((project.folder / tool.example / "build").rglob("spare*")):
        faults.append("the files of the model that was removed are still there")
    said = project.run((f"./{tool.program}",))
    if not said.startswith("float32: "):
        faults.append(f"the program says {said!r}")
    return faults


def main() -> int:
    """Play every scenario with every tool and print a line for each tool."""
    parser = argparse.ArgumentParser(description="Count what outer builds run again.")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of tools")
    given = parser.parse_args()
    n_passed = n_failed = 0
    cases: dict[str, tuple[Sequence[str], Callable[[Path], list[str]]]] = {
        name: (tool.needs, partial(faults_of, tool)) for name, tool in TOOLS.items()
    }
    cases["bazel"] = embedding_bazel.NEEDS, embedding_bazel.faults
    for name, (needs, play) in cases.items():
        if not fnmatch(name, given.only):
            continue
        missing = [program for program in needs if shutil.which(program) is None]
        if missing:
            print(f"{name}: skipped: there is no {', '.join(missing)}", flush=True)
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="dlbuild-embedding-") as work:
            faults = play(Path(work))
        n_passed, n_failed = n_passed + (not faults), n_failed + bool(faults)
        shown = "\n  ".join([f"{name}: {'FAILED' if faults else 'ok'}", *faults])
        print(f"{shown} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{n_passed} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
