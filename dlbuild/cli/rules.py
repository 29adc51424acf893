"""`dlbuild rules`: the operators that the built-in rules and the packs describe."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from dlbuild.base.paths import builtin_folder
from dlbuild.build.recipe import PROJECT_FILE
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import whole_recipe
from dlbuild.report.text import markdown_text
from dlbuild.rulebook.load import load_rules
from dlbuild.rulebook.rule import OpRule


def arguments(parser: Parser) -> None:
    """Add its options."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a table for a page")


def run(given: argparse.Namespace) -> int:
    """Print them; without a recipe, the built-in ones."""
    has_recipe = Path(PROJECT_FILE).is_file()
    folders = whole_recipe(given).folders if has_recipe else (builtin_folder(),)
    book = load_rules(folders[::-1])
    rules = [book.rules[key] for key in sorted(book.rules)]
    rows = [row for one in rules for rule in one for row in _rows(rule)]
    if given.json:
        print(json.dumps([dict(zip(_NAMES, row, strict=True)) for row in rows], indent=2))
    elif given.markdown:
        print("\n".join(markdown_text(_HEADER, rows)))
    else:
        width = max(len(row[0]) for row in rows)
        print("\n".join(f"{row[0]:<{width}}  {row[2]}" for row in rows))
    return 0


_NAMES = ("operator", "opsets", "summary", "rule", "conditions")
_HEADER = ("Operator", "Opsets", "What it computes", "Rule", "Conditions")


def _rows(rule: OpRule) -> Iterator[tuple[str, ...]]:
    first, last = rule.since
    name = f"{rule.domain}.{rule.kind}" if rule.domain else rule.kind
    conditions = "; ".join(requirement.because for requirement in rule.requires)
    opsets = f"{first} to {last}" if last else f"{first} on" if first else "all"
    yield name, opsets, rule.summary, rule.file, conditions
