"""`dlbuild doctor`: is everything there that the targets need?"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dlbuild.base.paths import builtin_folder
from dlbuild.build.recipe import PROJECT_FILE
from dlbuild.build.targets import TargetBook, read_target_files, target_files
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import add_targets, asked_targets, selected, whole_recipe
from dlbuild.ir.target import Target
from dlbuild.run.tools import Tool, tools_of


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Print what each program is; the exit code is 1 if one is missing."""
    tools = tools_of(_targets(given))
    if given.json:
        print(json.dumps([asdict(tool) for tool in tools], indent=2))
    else:
        print("\n".join(_lines(tools)))
    return 1 if any(tool.is_missing for tool in tools) else 0


def _targets(given: argparse.Namespace) -> Sequence[Target]:
    """Return the targets of dlbuild.yaml; where there is none, all built-in ones."""
    if Path(PROJECT_FILE).is_file():
        recipe = selected(whole_recipe(given), asked_targets(given))
        return [recipe.targets[name] for name in dict.fromkeys(b.target for b in recipe.builds)]
    built_in = read_target_files(target_files((builtin_folder(),)), Path.as_posix)
    book = TargetBook({}, built_in)
    return [book.resolve(name).target for name in book.names]


def _lines(tools: Sequence[Tool]) -> list[str]:
    width = max(len(tool.name) for tool in tools)
    lines = []
    for tool in tools:
        word = "ok" if tool.found else "optional" if tool.is_optional else "MISSING"
        lines.append(f"{word:<8}  {tool.name:<{width}}  {tool.purpose}")
        if not tool.found:
            lines.append(f"{'':<8}  {'':<{width}}  fix: {tool.package}")
    if not any(tool.is_missing for tool in tools):
        lines.append("everything is there that these targets need")
    return lines
