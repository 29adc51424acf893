from pathlib import Path

import pytest

from dlbuild.base.digest import sha256
from dlbuild.build.code import CodeDigests
from dlbuild.build.pipeline import PIPELINE

PACKAGE = Path(__file__).parents[3] / "dlbuild"


def test_a_module_reaches_what_its_imports_import() -> None:
    found = CodeDigests().reachable("dlbuild.build.targets")
    assert {"dlbuild", "dlbuild.build.schema", "dlbuild.base.units", "dlbuild.ir.dtype"} <= set(
        found
    )
    assert found["dlbuild.base.units"] == sha256((PACKAGE / "base" / "units.py").read_bytes())


def test_a_module_imported_from_a_package_counts() -> None:
    assert "dlbuild.ir.codec" in CodeDigests().reachable("dlbuild.build.steps.tile")


@pytest.mark.parametrize("stage", PIPELINE.stages, ids=lambda stage: stage.name)
def test_no_stage_reaches_the_machinery_that_runs_it(stage: object) -> None:
    found = CodeDigests().reachable(str(getattr(stage, "module", "")))
    machinery = ("engine", "builder", "recipe", "cache", "keys", "tasks", "fastpath", "schema")
    assert not {f"dlbuild.build.{name}" for name in machinery} & set(found)


def test_imports_are_found_however_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_package"
    package.mkdir()
    texts = {
        "__init__": "",
        "a": "from some_package.b import (\n    x,  # a remark, (with) brackets\n    y,\n)\n",
        "b": "def f():\n    import some_package.c as c\n    return c\n",
        "c": "from some_package import d\n",
        "d": "import os\n",
        "e": "",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.setattr("dlbuild.build.code._PACKAGE", package)
    assert list(CodeDigests().reachable("some_package.a")) == [
        "some_package",
        "some_package.a",
        "some_package.b",
        "some_package.c",
        "some_package.d",
    ]
