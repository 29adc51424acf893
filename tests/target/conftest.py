"""Recipes built and run on emulated cores."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from dlbuild.build.builder import How, build
from dlbuild.build.engine import Engine
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.build.stage import Pipeline
from dlbuild.run.toolchain import identify
from tests.conftest import Needs

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
PROGRAMS = (
    *("arm-none-eabi-gcc", "qemu-system-arm"),
    *("riscv64-unknown-elf-gcc", "qemu-system-riscv32"),
)

Project = Callable[..., None]
Made = Callable[..., tuple[Engine, dict[str, Build]]]


def make(folder: Path, *goals: str, fails: bool = False) -> str:
    """Make the goals of an example, or fail to as expected; return what is said."""
    done = subprocess.run(
        [
            *("make", "--no-print-directory", *goals),
            f"DLBUILD={sys.executable} -m dlbuild",
            f"BOARDS={ROOT / 'boards'}",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    # QEMU shows what semihosting prints on standard error.
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, said
    return said


@pytest.fixture(autouse=True, scope="session")
def _emulators(needs: Needs) -> None:
    needs(*PROGRAMS)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Write dlbuild.yaml with digits networks and these targets, and go to its folder."""

    def written(
        targets: dict[str, object], models: Sequence[str] = ("digits", "digits_int8")
    ) -> None:
        monkeypatch.chdir(tmp_path)
        entries = {
            name: {
                "source": str(DIGITS / f"{name}.onnx"),
                "samples": str(DIGITS / f"{name}_samples.npz"),
            }
            for name in models
        }
        recipe = {"version": 1, "models": entries, "targets": targets}
        Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))

    return written


@pytest.fixture
def made() -> Made:
    """Build dlbuild.yaml; return the engine and each build by its label."""

    def done(pipeline: Pipeline = PIPELINE) -> tuple[Engine, dict[str, Build]]:
        recipe = read_recipe()
        engine = build(recipe, pipeline, How(jobs=2), identify, lambda _: None)
        return engine, {one.label: one for one in recipe.builds}

    return done
