"""The page of the recipe's keys is what the schema says."""

from pathlib import Path

from dlbuild.build.schema import json_schema
from dlbuild.report.recipe import keys_text

PAGE = Path(__file__).parent.parent / "docs" / "recipe.md"


def test_the_page_of_keys_is_current() -> None:
    tables = PAGE.read_text().partition("schema --markdown`.\n\n")[2]
    due = "\n".join(keys_text(json_schema()))
    assert tables == due, f"put what `dlbuild schema --markdown` prints at the end of {PAGE.name}"
