"""Fixtures of all tests, and the flag that renews golden files."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, Mapping[str, str]], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare texts with the files of `tests/golden/<case>`, or renew them."""
    is_update = bool(request.config.getoption("--update-golden"))

    def compare(case: str, texts: Mapping[str, str]) -> None:
        folder = GOLDEN / case
        if is_update:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="ascii")
        there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        assert there == sorted(texts), "--update-golden renews the files"
        for name, text in texts.items():
            assert (folder / name).read_text(encoding="ascii") == text, (
                f"{case}/{name} changed; --update-golden renews it"
            )

    return compare
