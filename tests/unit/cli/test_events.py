"""What a build says while it runs."""

import json

import pytest

from dlbuild.build.engine import Finished
from dlbuild.cli.events import Events, Form, form_of

RAN = Finished("kws@board", "render", 0.25, was_run=True)
FOUND = Finished("kws@board", "parse", 0.01, was_run=False)


def said(capsys: pytest.CaptureFixture[str], form: Form, *stages: Finished) -> str:
    events = Events(form)
    for stage in stages:
        events.finished(stage)
    events.ended(["a.c"])
    return capsys.readouterr().out


def test_a_line_for_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "lines", RAN, FOUND) == (
        "kws@board: render (0.25 s)\nkws@board: parse (from the store)\n"
    )


def test_files_that_were_restored_without_a_stage_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said(capsys, "lines") == "a.c: restored\n"


def test_one_line_is_written_over_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "terminal", RAN, FOUND) == (
        "\r\x1b[K[1] kws@board: render (0.25 s)"
        "\r\x1b[K[2] kws@board: parse (from the store)\n"
        "1 stages run, 1 from the store\n"
    )


def test_json_has_an_object_on_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in said(capsys, "json", RAN).splitlines()]
    stage = {"build": "kws@board", "stage": "render", "seconds": 0.25, "was_run": True}
    assert lines == [
        {"event": "stage", **stage},
        {"event": "end", "is_ok": True, "run": 1, "found": 0},
    ]


def test_json_has_the_errors(capsys: pytest.CaptureFixture[str]) -> None:
    Events("json").failed(["too large"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {"event": "error", "message": "too large"},
        {"event": "end", "is_ok": False, "run": 0, "found": 0},
    ]


def test_a_report_has_stdout_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    events = Events("json", quiet=True)
    events.finished(RAN)
    events.ended([])
    assert capsys.readouterr() == ("", "kws@board: render (0.25 s)\n")


def test_what_is_no_terminal_gets_lines() -> None:
    assert (form_of(is_json=False), form_of(is_json=True)) == ("lines", "json")
