from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a model file that no test parses."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kws.onnx").write_bytes(b"")
    return tmp_path
