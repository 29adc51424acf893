"""The script for PlatformIO, run with a stand-in for the environment that SCons gives it."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "embed" / "platformio" / "dlbuild_platformio.py"


@dataclass
class Environment:
    """What the script uses of an environment of SCons in PlatformIO."""

    folder: Path
    options: Mapping[str, str]
    appended: list[str] = field(default_factory=list)
    built: list[tuple[str, str, str]] = field(default_factory=list)

    def subst(self, text: str) -> str:
        return text.replace("$PROJECT_DIR", str(self.folder)).replace(
            "$BUILD_DIR", str(self.folder / ".pio" / "board")
        )

    def GetProjectOption(self, name: str, default: str) -> str:  # noqa: N802 - PlatformIO's name
        return self.options.get(name, default)

    def Append(self, CPPPATH: list[str]) -> None:  # noqa: N802, N803 - SCons's names
        self.appended += CPPPATH

    def BuildSources(self, objects: str, folder: str, files: str) -> None:  # noqa: N802 - as above
        self.built.append((objects, folder, files))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "examples/digits/digits_int8.onnx", tmp_path / "net.onnx")
    (tmp_path / "dlbuild.yaml").write_text(
        "version: 1\nmodels: {net: {source: net.onnx}}\ntargets: {pc: {extends: host}}\n"
    )
    return tmp_path


def run(project: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> Environment:
    monkeypatch.setenv("PYTHONPATH", str(ROOT) + os.pathsep + os.environ.get("PYTHONPATH", ""))
    given = {f"custom_dlbuild_{name}": value for name, value in options.items()}
    env = Environment(project, given)
    code = compile(SCRIPT.read_text(), SCRIPT.as_posix(), "exec")
    exec(code, {"Import": lambda _: None, "env": env})  # noqa: S102 - as SCons does
    return env


def test_the_model_is_built_and_compiled(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = run(project, monkeypatch, target="pc", models="net")
    folder = str(project / ".pio/board/dlbuild/pc/net")
    assert env.appended == [folder]
    assert env.built == [("$BUILD_DIR/dlbuild-objects/net", folder, "+<*.c>")]
    assert Path(folder, "net.c").is_file()


def test_a_model_that_the_recipe_does_not_build_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="builds no 'kws' for 'pc'"):
        run(project, monkeypatch, target="pc", models="kws")


def test_a_project_without_a_recipe_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"dlbuild\.yaml is not there"):
        run(tmp_path, monkeypatch, target="pc", models="kws")


def test_a_failure_of_dlbuild_ends_the_build(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(project, monkeypatch, target="moon", models="net")
