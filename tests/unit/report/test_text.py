from dlbuild.build.engine import Finished
from dlbuild.build.forecast import Forecast
from dlbuild.report.text import forecast_text, markdown_text, status_line, table_text
from dlbuild.report.verdict import verdict_text
from dlbuild.run.verify import Verdict
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


def test_a_verdict_shows_each_tensor() -> None:
    good = Comparison("y", "", "int8", 320, 3, 0, 1.0, 0.5, argmax_agrees=True, limit="1 LSB")
    bad = Comparison("z", "conv1", "int8", 9, 4, 2, 7.0, 0.5, argmax_agrees=True, limit="1 LSB")
    verdict = Verdict("kws", "pc", "ONNX Runtime", 3, 3, is_repeatable=False, outputs=(good,))
    assert list(verdict_text(verdict)) == [
        "kws@pc: FAILED, 3 samples",
        "  against ONNX Runtime",
        "  FAILED: 3 runs of one sample differ",
        "  outputs:",
        "        dtype  elements  differ  outside  max abs  max rel  limit  tensor",
        "    ok   int8       320       3        0        1      0.5  1 LSB  y",
    ]
    layered = Verdict(
        "kws", "pc", "x", 3, 3, is_repeatable=True, outputs=(good,), layers=(bad,), notes=("so",)
    )
    assert list(verdict_text(layered))[2] == "  note: so"
    assert list(verdict_text(layered))[-3:] == [
        "  layers, each given the reference's inputs:",
        "            dtype  elements  differ  outside  max abs  max rel  limit  tensor",
        "    FAILED   int8         9       4        2        7      0.5  1 LSB  conv1: z",
    ]
