"""A project in a folder of its own, built by the command line in other processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parent.parent
RECIPE = """\
version: 1
models:
  net: {source: net.onnx}
targets:
  pc: {extends: host}
"""
MADE = Path("build/dlbuild/pc/net")
STATE = Path("build/dlbuild/.dlbuild")

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Built:
    """What one command did. ran: stages that were made; stored: taken from a store."""

    status: int
    text: str

    @property
    def ran(self) -> list[str]:
        """Stages that were made anew, without the build's label."""
        return [line for line, how in self._stages() if how.endswith(" s)")]

    @property
    def stored(self) -> list[str]:
        """Stages whose result was found."""
        return [line for line, how in self._stages() if how == "(from the store)"]

    def _stages(self) -> Iterator[tuple[str, str]]:
        for line in self.text.splitlines():
            label, colon, rest = line.partition(": ")
            stage, _, how = rest.partition(" (")
            if colon and "@" in label and how.endswith(")"):
                yield stage, f"({how}"


@dataclass(frozen=True)
class Project:
    """A folder with a recipe and a model.

    environment: on top of ours. python, user: what runs dlbuild, and who; ours unless another one.
    """

    folder: Path
    environment: Mapping[str, str]
    python: str = sys.executable
    user: int | None = None

    @property
    def model(self) -> Path:
        """The model's file."""
        return self.folder / "net.onnx"

    def with_environment(self, **more: str) -> "Project":
        """Return the same project in another environment."""
        return replace(self, environment={**self.environment, **more})

    def start(self, *words: str, driver: str = "") -> subprocess.Popen[str]:
        """Start dlbuild. driver: Python that runs first, in the same process."""
        program = [
            "-c",
            f"{driver}\nimport sys\nfrom dlbuild.__main__ import main\nsys.exit(main())",
        ]
        return subprocess.Popen(
            [self.python, *(program if driver else ["-m", "dlbuild"]), *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else (),
        )

    def run(self, *words: str, driver: str = "") -> Built:
        """Run dlbuild to its end."""
        process = self.start(*words, driver=driver)
        text = process.communicate()[0]
        return Built(process.returncode, text)

    def build(self, *words: str, driver: str = "") -> Built:
        """Build, which has to succeed."""
        built = self.run("build", *words, driver=driver)
        assert built.status == 0, built.text
        return built

    def outputs(self) -> dict[str, bytes]:
        """Return every file under the build folder but the state."""
        out = self.folder / "build" / "dlbuild"
        return {
            path.relative_to(out).as_posix(): path.read_bytes()
            for path in sorted(out.rglob("*"))
            if path.is_file() and ".dlbuild" not in path.parts
        }

    def times(self) -> dict[str, int]:
        """Return when each of those files was written."""
        out = self.folder / "build" / "dlbuild"
        return {name: (out / name).stat().st_mtime_ns for name in self.outputs()}

    def sources(self) -> dict[str, bytes]:
        """Return what the user wrote."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and "build" not in path.relative_to(self.folder).parts
        }


@dataclass
class Lab:
    """Makes projects. `base`: one that is built, copied for each test."""

    folder: Path
    count: int = 0

    def __post_init__(self) -> None:
        self._clean: dict[str, dict[str, bytes]] = {}
        (self.folder / "tmp").mkdir()
        self.models = variants(ROOT / "examples" / "digits" / "digits.onnx")
        self.base = self.project()
        self.base.build("-j1")

    def project(self) -> Project:
        """Return a new project, never built."""
        self.count += 1
        folder = self.folder / f"project{self.count}"
        folder.mkdir()
        (folder / "net.onnx").write_bytes(self.models["A"])
        (folder / "dlbuild.yaml").write_text(RECIPE)
        # What killed compilers leave lies here too.
        environment = {
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "DLBUILD_CACHE_DIR": str(folder.with_name(f"{folder.name}.cache")),
        }
        return Project(folder, environment)

    def built(self) -> Project:
        """Return a new project that was built and has nothing to do."""
        made = self.project()
        shutil.copytree(self.base.folder / "build", made.folder / "build")
        ours, its = (Path(one.environment["DLBUILD_CACHE_DIR"]) for one in (self.base, made))
        if ours.is_dir():
            shutil.copytree(ours, its)
        made.build("-j1")
        return made

    def clean(self, project: Project) -> dict[str, bytes]:
        """Return what a clean build of the project's sources makes, elsewhere."""
        sources = project.sources()
        asked = {k: v for k, v in project.environment.items() if k == "PYTHONPATH"}
        digests = [(name, sha256(content).hexdigest()) for name, content in sources.items()]
        named = repr((digests, asked))
        if named not in self._clean:
            other = self.project().with_environment(**asked)
            for name, content in sources.items():
                path = other.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod((project.folder / name).stat().st_mode & 0o777)
            other.build("-j1")
            self._clean[named] = other.outputs()
        return self._clean[named]

    def check(self, project: Project) -> None:
        """Compare a project's outputs with those of a clean build of the same sources."""
        expected, found = self.clean(project), project.outputs()
        assert list(found) == list(expected), sorted({*found} ^ {*expected})
        wrong = [name for name in found if found[name] != expected[name]]
        assert not wrong, f"differs from a clean build: {wrong}"


def variants(source: Path) -> dict[str, bytes]:
    """Return models of one structure: A, B and C with other weights; B has the size of A."""
    model = onnx.load(str(source))
    found = {"A": model.SerializeToString()}
    for seed, name in enumerate("BC"):
        rng = np.random.default_rng(seed)
        for tensor in model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float32:
                values = rng.normal(size=array.shape).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
        found[name] = model.SerializeToString()
    model.producer_name = "a longer name of who made it"
    found["longer"] = model.SerializeToString()
    assert len(found["A"]) == len(found["B"]) != len(found["longer"])
    return found


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mount a small or read-only file system on a folder; needs the rights of root."""
    subprocess.run(["mount", *options, str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
