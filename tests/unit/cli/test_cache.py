import json
from pathlib import Path

import pytest

from dlbuild.build.cache import Store
from dlbuild.cli import main


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main.run(["cache", *words])
    return code, capsys.readouterr().out


def test_it_says_where_it_is(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "where") == (0, f"{cache}\n")
    assert json.loads(said(capsys, "where", "--json")[1]) == {"folder": str(cache)}


def test_it_counts_what_it_holds(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(cache).put(b"abc")
    assert said(capsys, "stats") == (0, "0 results, 1 contents, 3 B\n")
    assert json.loads(said(capsys, "stats", "--json")[1])["size_bytes"] == 3


def test_damage_is_found_and_told(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = Store(cache).put(b"abc")
    assert said(capsys, "verify") == (0, "0 damaged\n")
    path = cache / "v1" / "cas" / digest[:2] / digest
    path.chmod(0o644)
    path.write_bytes(b"abd")
    assert said(capsys, "verify") == (1, f"{path}: damaged, removed\n1 damaged\n")


def test_it_shrinks_to_a_limit(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(cache).put(bytes(2000))
    assert said(capsys, "gc") == (0, "removed 0 B\n")
    assert said(capsys, "gc", "--limit", "1 KiB") == (0, "removed 2,000 B\n")


def test_a_limit_needs_a_unit(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cache.is_dir()
    assert main.run(["cache", "gc", "--limit", "1"]) == 2
    assert capsys.readouterr().err == (
        "--limit: error: the size '1' has no unit\n  fix: write 1 KiB\n"
    )


def test_clear_removes_the_results_and_nothing_else(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Store(cache).put(b"abc")
    (cache / "mine").write_text("")
    assert said(capsys, "clear") == (0, f"{cache}: removed\n")
    assert said(capsys, "clear")[0] == 0
    assert [path.name for path in cache.iterdir()] == ["mine"]


def test_without_a_home_there_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DLBUILD_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    assert main.run(["cache", "where"]) == 1
    assert capsys.readouterr().err == (
        "error: there is no folder for caches\n"
        "  why: no home folder, and DLBUILD_CACHE_DIR names none\n"
        "  fix: set DLBUILD_CACHE_DIR\n"
    )
