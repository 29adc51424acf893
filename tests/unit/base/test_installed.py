import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from dlbuild.base.installed import installed


@pytest.mark.parametrize("library", ["numpy", "onnx", "ml_dtypes", "ml-dtypes", "pyyaml", "jinja2"])
def test_versions_are_those_of_the_metadata(library: str) -> None:
    assert installed(library)[0] == version(library)


def test_the_first_folder_of_the_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "NumPy-99.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed("numpy") == ("99.0", str(tmp_path))


def test_what_is_absent_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/dev/null", "/nonexistent/folder"])
    assert installed("numpy") == ("", "")
