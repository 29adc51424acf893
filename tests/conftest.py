"""Fixtures of all tests, the flag that renews golden files, the time of each file of tests."""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, Mapping[str, str]], None]
Needs = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )
    parser.addoption(
        "--reported",
        action="append",
        default=[],
        metavar="FAULT",
        help="run the tests that rule out this reported fault alone; may be given more than once",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the faults asked for, and write in reports which fault each rules out."""
    wanted = frozenset(config.getoption("--reported"))
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        faults = [mark.args[0] for mark in item.iter_markers("reported")]
        item.user_properties += [("reported", fault) for fault in faults]
        (kept if not wanted or wanted.intersection(faults) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = kept


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """With --durations, print how long the tests of each file took."""
    if not config.getoption("durations"):
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.location[0]] += report.duration
    terminalreporter.section("seconds of the tests of each file")
    for file, took in sorted(seconds.items(), key=lambda one: -one[1]):
        terminalreporter.write_line(f"{took:8.1f} {file}")
    terminalreporter.write_line(f"{sum(seconds.values()):8.1f} all")


@pytest.fixture(autouse=True, scope="session")
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the tests build out of the user's cache, and what lies there out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLBUILD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a test a cache that no other test has filled."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DLBUILD_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def needs() -> Needs:
    """Skip a test if a program is missing; in CI none may be."""

    def require(*programs: str) -> None:
        missing = ", ".join(program for program in programs if shutil.which(program) is None)
        if missing:
            said = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            said(f"not installed: {missing}")

    return require


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
