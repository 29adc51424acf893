"""Operators that parse gives another form, or of which onnx has no case, against ONNX Runtime."""

from pathlib import Path

import onnx
import pytest

from dlbuild.cli import main

NGRAMS = """ngram_counts = [0, 4], ngram_indexes = [0, 3, 2, 1, 4, 5, 6],
 pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], weights = [1.5, 0.5, 2.0, 1.0, 3.0, 0.25, 4.0],
 min_gram_length = 1, max_gram_length = 2, max_skip_count = 2"""
MODELS = {
    "determinants": """g (float[3,4,4] x) => (float[3] y) { y = Det(x) }""",
    "determinant": """g (float[1,1] x) => (float y) { y = Det(x) }""",
    "singular": """g (float[2,2] x) => (float y) <float z = {0}>
        { o = Mul(x, z) y = Det(o) }""",
    "regions": """g (float[2,3,9,8] x) => (float[3,3,2,3] y)
        <float[3,5] rois = {0, 0.4, 1.6, 5.2, 7.7, 1, 2, 2, 2, 2, 1, -3, 4, 30, 50}>
        { y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.75> (x, rois) }""",
    **{
        mode: f"""g (float[2,9] x) => (float[2,7] y) <float nine = {{9}}> {{
            a = Abs(x) b = Mul(a, nine) w = Cast <to = 6> (b)
            y = TfIdfVectorizer <mode = "{mode}", {NGRAMS}> (w) }}"""
        for mode in ("TF", "IDF", "TFIDF")
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_the_c_computes_what_the_operator_does(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]>\n'
    onnx.save(onnx.parser.parse_model(head + MODELS[name]), tmp_path / "m.onnx")
    (tmp_path / "dlbuild.yaml").write_text("version: 1\nmodels: {m: {source: m.onnx}}\n")
    monkeypatch.chdir(tmp_path)

    code = main.run(("verify",))

    out = capsys.readouterr().out
    assert code == 0, out
    assert "against ONNX Runtime" in out
