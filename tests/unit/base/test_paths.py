from pathlib import Path

import pytest

from dlbuild.base import paths


def test_a_checkout_has_its_rules_beside_the_package() -> None:
    folder = paths.builtin_folder()
    assert (folder / "rules" / "ops" / "conv.yaml").is_file()
    assert (folder / "templates").is_dir()


def test_a_wheel_has_them_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_builtin" / "rules").mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path)
    assert paths.builtin_folder() == tmp_path / "_builtin"
