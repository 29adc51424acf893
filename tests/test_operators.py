"""The page of operators names each one, and its table is what the rules say."""

import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "operators.md"
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
COMMAND = "python -m dlbuild rules --markdown"


def test_the_table_of_operators_is_current() -> None:
    done = subprocess.run(
        [sys.executable, *COMMAND.split()[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    table = PAGE.read_text().partition("rules --markdown`.\n\n")[2]
    assert table == done.stdout, f"put what `{COMMAND}` prints at the end of {PAGE.name}"


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_operator_of_onnx_is_on_the_page(domain: str) -> None:
    words = set(re.findall(r"\w+", PAGE.read_text()))
    schemas = onnx.defs.get_all_schemas()
    kinds = {s.name for s in schemas if s.domain == domain and not s.deprecated}
    assert len(kinds) > 0
    assert sorted(kinds - words) == []
