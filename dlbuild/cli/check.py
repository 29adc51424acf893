"""`dlbuild check`: the recipe, the rules and the targets, without building."""

import argparse
import json

from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import whole_recipe
from dlbuild.rulebook.load import load_rules


def arguments(parser: Parser) -> None:
    """Add its options."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Read everything; the first fault ends it."""
    recipe = whole_recipe(given)
    book = load_rules(recipe.folders[::-1])
    counts = {
        "models": len(recipe.models),
        "targets": len(recipe.targets),
        "builds": len(recipe.builds),
        "rules": sum(len(rules) for rules in book.rules.values()),
    }
    if given.json:
        print(json.dumps(counts))
    else:
        said = [f"{n} {noun if n != 1 else noun[:-1]}" for noun, n in counts.items()]
        print(f"{', '.join(said)}: no fault found")
    return 0
