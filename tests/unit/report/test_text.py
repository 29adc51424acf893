from dataclasses import replace

from dlbuild.build.engine import Finished
from dlbuild.build.forecast import Forecast
from dlbuild.report.text import forecast_text, markdown_text, status_line, table_text
from dlbuild.report.verdict import verdict_text
from dlbuild.run.verify import EXPECTED, Verdict
from dlbuild.run.verify_compare import Comparison


def test_a_stage_has_one_line() -> None:
    assert status_line(Finished("kws@pc", "parse", 0.123, was_run=True)) == "kws@pc: parse (0.12 s)"
    assert status_line(Finished("kws@pc", "parse", 0.1, was_run=False)) == (
        "kws@pc: parse (from the store)"
    )


def test_a_table_is_aligned() -> None:
    assert list(table_text(("name", "size"), [("a", "1"), ("long name", "1,000")])) == [
        "name        size",
        "a              1",
        "long name  1,000",
    ]


def test_markdown_escapes_its_bars() -> None:
    assert list(markdown_text(("a", "b"), [("x|y", "")])) == [
        "| a | b |",
        "| --- | --- |",
        "| x\\|y |  |",
    ]


def test_a_forecast_says_state_reason_and_last_time() -> None:
    lines = forecast_text(
        {
            "kws@pc": (
                Forecast("parse", "would run", ("kws.onnx changed",), ""),
                Forecast("profile", "depends", ("on what parse makes",), "ran in build 1: x -> y"),
                Forecast("tile", "up to date", (), ""),
            )
        },
        1,
    )
    assert list(lines) == [
        "1 build so far",
        "",
        "kws@pc",
        "  parse    would run: kws.onnx changed",
        "  profile  depends on what parse makes",
        "             ran in build 1: x -> y",
        "  tile     up to date",
    ]


GOOD = Comparison("y", "", "int8", 320, 3, 0, 1.0, 0.5, argmax_agrees=True, limit="1 LSB")


def test_a_verdict_shows_each_tensor() -> None:
    bad = Comparison("z", "conv1", "int8", 9, 4, 2, 7.0, 0.5, argmax_agrees=True, limit="1 LSB")
    verdict = Verdict("kws", "pc", "ONNX Runtime", 3, 3, is_repeatable=False, outputs=(GOOD,))
    assert list(verdict_text(verdict)) == [
        "kws@pc: FAILED, 3 samples",
        "  against ONNX Runtime",
        "  FAILED: 3 runs of one sample differ",
        "  outputs:",
        "        dtype  elements  differ  outside  max abs  max rel  limit  tensor",
        "    ok   int8       320       3        0        1      0.5  1 LSB  y",
    ]
    layered = Verdict(
        "kws", "pc", "x", 3, 3, is_repeatable=True, outputs=(GOOD,), layers=(bad,), notes=("so",)
    )
    assert list(verdict_text(layered))[2] == "  note: so"
    assert list(verdict_text(layered))[-3:] == [
        "  layers, each given the reference's inputs:",
        "            dtype  elements  differ  outside  max abs  max rel  limit  tensor",
        "    FAILED   int8         9       4        2        7      0.5  1 LSB  conv1: z",
    ]


def test_a_verdict_says_which_element_is_worst_and_where_to_look() -> None:
    text = "[1] of sample 0: 7, should be 0"
    bad = replace(GOOD, n_outside=1, worst=text, n_nan=2)
    verdict = Verdict("kws", "pc", EXPECTED, 3, 3, is_repeatable=True, outputs=(bad,))
    assert list(verdict_text(verdict))[-3:] == [
        "    worst of y: [1] of sample 0: 7, should be 0",
        "    y: 2 of 320 elements are not a number on both sides",
        "  fix: dlbuild verify --layers says which kernel is wrong",
    ]
    layered = replace(verdict, layers=(GOOD,))
    assert list(verdict_text(layered))[-1] == (
        "  each kernel computes what the reference does: are the expected outputs of the samples"
        " this model's?"
    )


def test_a_forecast_leaves_out_what_the_last_build_left_alone() -> None:
    found = {
        "kws@pc": (
            Forecast("parse", "up to date", (), "ran in build 3: x -> y", 3),
            Forecast("tile", "up to date", (), "ran in build 1: x -> y", 1),
            Forecast("size", "would run", ("x",), "ran in build 1: x -> y", 1),
        ),
        "kws@m4": (Forecast("parse", "up to date", (), "ran in build 2: x -> y", 2),),
    }
    assert list(forecast_text(found, 4)) == [
        "4 builds so far",
        "",
        "kws@pc",
        "  1 stage is up to date and older than build 3; --all shows it",
        "  parse  up to date",
        "           ran in build 3: x -> y",
        "  size   would run: x",
        "           ran in build 1: x -> y",
        "",
        "kws@m4",
        "  1 stage is up to date and older than build 3; --all shows it",
    ]
    assert "tile" in "".join(forecast_text(found, 4, is_whole=True))
