"""`dlbuild outputs`: the files that a build writes, known without building."""

import argparse
import json
from pathlib import Path

from dlbuild.build.engine import path_of
from dlbuild.build.recipe import Build
from dlbuild.build.stage import FILES
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import add_targets, asked_targets, selected, whole_recipe
from dlbuild.ir.target import Target


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--make", action="store_true", help="print variables of make")
    form.add_argument("--cmake", action="store_true", help="print set() commands of CMake")


def run(given: argparse.Namespace) -> int:
    """Print them."""
    recipe = selected(whole_recipe(given), asked_targets(given))
    out = Path(given.out)
    files = {
        build: {
            name: path_of(out, build, name).as_posix()
            for name in FILES
            if _is_written(name, build, recipe.targets[build.target])
        }
        for build in recipe.builds
    }
    if given.json:
        entries = [
            {"model": build.model, "target": build.target, "files": named}
            for build, named in files.items()
        ]
        print(json.dumps(entries, indent=2))
        return 0
    for build, named in files.items():
        if not (given.make or given.cmake):
            print("\n".join(named.values()))
            continue
        for suffix, names in _VARIABLES.items():
            variable = f"{_prefix(build)}_{suffix}"
            words = " ".join(f'"{named[name]}"' if given.cmake else named[name] for name in names)
            print(f"set({variable} {words})" if given.cmake else f"{variable} := {words}")
    return 0


def _is_written(name: str, build: Build, target: Target) -> bool:
    if name == "weights_binary":
        return build.options.weights == "incbin"
    is_port = name in ("port_header", "port_source")
    return not is_port or any("tiles" in memory.holds for memory in target.memories)


_VARIABLES = {
    "HEADERS": ("header", "weights_header"),
    "SOURCES": ("source", "weights_source"),
    "ARCHIVE": ("archive",),
}


def _prefix(build: Build) -> str:
    """Return the beginning of the variables of one build: DLBUILD_board_kws."""
    target = "".join(letter if letter.isalnum() else "_" for letter in build.target)
    return f"DLBUILD_{target}_{build.model}"
