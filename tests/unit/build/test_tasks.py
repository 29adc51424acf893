import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dlbuild.build.task import Task
from dlbuild.build.tasks import run_tasks


def appending(log: list[str], name: str) -> Callable[[], None]:
    return lambda: log.append(name)


def failing(name: str) -> Callable[[], None]:
    def fail() -> None:
        raise ValueError(name)

    return fail


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_a_task_runs_after_what_it_needs(jobs: int) -> None:
    log: list[str] = []
    run_tasks(
        [
            Task("c", appending(log, "c"), ("a", "b")),
            Task("b", appending(log, "b"), ("a",)),
            Task("a", appending(log, "a")),
        ],
        jobs,
    )
    assert log == ["a", "b", "c"]


def test_independent_tasks_run_at_once() -> None:
    meeting = threading.Barrier(2, timeout=10)

    def meet() -> None:
        meeting.wait()

    run_tasks([Task("a", meet), Task("b", meet)], 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_needs_a_failed_task_does_not_run(jobs: int) -> None:
    log: list[str] = []
    with pytest.raises(ExceptionGroup) as caught:
        run_tasks(
            [
                Task("a", failing("a")),
                Task("b", appending(log, "b"), ("a",)),
                Task("c", appending(log, "c"), ("b",)),
                Task("d", appending(log, "d")),
            ],
            jobs,
            keep_going=True,
        )
    assert [str(error) for error in caught.value.exceptions] == ["a"]
    assert log == ["d"]


def test_the_first_failure_ends_it_unless_asked_otherwise() -> None:
    log: list[str] = []
    with pytest.raises(ExceptionGroup):
        run_tasks([Task("a", failing("a")), Task("b", appending(log, "b"))], 1)
    assert log == []


def test_failures_come_in_the_order_of_the_tasks() -> None:
    tasks = [Task(name, failing(name)) for name in "dacb"]
    with pytest.raises(ExceptionGroup) as caught:
        run_tasks(tasks, 4, keep_going=True)
    assert [str(error) for error in caught.value.exceptions] == list("dacb")


def test_no_file_is_written_and_nothing_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def say() -> None:
        sys.stdout.write("from the task\n")

    run_tasks([Task("a", say)], 1)
    assert capsys.readouterr().out == "from the task\n"
    assert not list(tmp_path.iterdir())
