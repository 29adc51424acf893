"""The example that links two models: built by Make, booted on an emulated Cortex-M4."""

import shutil
from pathlib import Path

from tests.target.conftest import ROOT, make

MADE = "build/dlbuild/firmware.elf"


def test_two_models_boot_and_agree(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("build")
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "digits", ignore=ignored)
    folder = tmp_path / "two_models"
    shutil.copytree(ROOT / "examples" / "two_models", folder, ignore=ignored)
    text = make(folder, "run")
    assert text.endswith("float32: 2, 100 %\nint8   : 2, 100 %\n")
    linked_at = (folder / MADE).stat().st_mtime_ns
    assert "nothing to do" in make(folder)
    assert (folder / MADE).stat().st_mtime_ns == linked_at
