"""A model whose results have a size that only the run knows, built and verified."""

from pathlib import Path

import onnx
import pytest

from dlbuild.cli import main

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,6,4] boxes, float[1,2,6] scores, float[5] x)
    => (int64[n] picked, float[n,4] found, int64[1,m] places, float[k] each, int64[k] first)
<int64[1] limit = {3}, float[1] iou = {0.5}, int64[1] two = {2}, int64[1] one = {1},
 int64[1] zero = {0}>
{
    rows = NonMaxSuppression(boxes, scores, limit, iou)
    column = Gather<axis = 1>(rows, two)
    picked = Squeeze(column, one)
    flat = Squeeze(boxes, zero)
    chosen = Gather<axis = 0>(flat, picked)
    found = Abs(chosen)
    places = NonZero(x)
    each, first = Unique(x)
}"""


def test_counts_are_in_the_header_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    (tmp_path / "dlbuild.yaml").write_text("version: 1\nmodels: {m: {source: m.onnx}}\n")
    monkeypatch.chdir(tmp_path)

    code = main.run(("verify", "--layers"))

    assert code == 0, capsys.readouterr().out
    header = " ".join(next(tmp_path.glob("build/**/m.h")).read_text().split())
    assert "found float[6][4]; rows_count says how many there are on axis 0" in header
    assert "rows_count int32[1]; how many there are of picked, found" in header
