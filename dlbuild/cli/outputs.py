"""`dlbuild outputs`: the files that a build writes, known without building."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from dlbuild.base.paths import builtin_folder
from dlbuild.build.engine import path_of
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build, Recipe
from dlbuild.build.stage import FILES
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import add_targets, asked_targets, selected, whole_recipe
from dlbuild.ir.target import Target, is_tiled


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    parser.add_argument("--sources", action="store_true", help="those of `build --sources`")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--make", action="store_true", help="print variables of make")
    form.add_argument("--cmake", action="store_true", help="print set() commands of CMake")


def run(given: argparse.Namespace) -> int:
    """Print them."""
    recipe = selected(whole_recipe(given), asked_targets(given))
    out = Path(given.out)
    pipeline = PIPELINE.of_sources if given.sources else PIPELINE
    makers = {name: pipeline.on(target).maker for name, target in recipe.targets.items()}
    files = {
        build: {
            name: path_of(out, build, name).as_posix()
            for name in FILES
            if name == "depfile" or name in makers[build.target]
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
    if not (given.make or given.cmake):
        print("\n".join(path for named in files.values() for path in named.values()))
        return 0
    for name, words in _variables(recipe, files).items():
        print(_cmake(name, words) if given.cmake else " ".join([name, ":=", *words]))
    return 0


def _variables(recipe: Recipe, files: Mapping[Build, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the variables of an outer build: what there is, and the files of each build."""
    own = [path for path in recipe.files if not path.is_relative_to(builtin_folder())]
    found = {
        "DLBUILD_MODELS": list(dict.fromkeys(build.model for build in files)),
        "DLBUILD_TARGETS": list(dict.fromkeys(build.target for build in files)),
        "DLBUILD_RECIPE_FILES": [path.absolute().as_posix() for path in own if path.is_file()],
    }
    for build, named in files.items():
        for suffix, names in _VARIABLES.items():
            found[f"{_prefix(build)}_{suffix}"] = [named[name] for name in names if name in named]
    return found


def _cmake(name: str, words: Sequence[str]) -> str:
    # Bracket arguments: no character of a path means anything in them.
    return f"set({name}{''.join(f' [==[{word}]==]' for word in words)})"


def _is_written(name: str, build: Build, target: Target) -> bool:
    options = build.options
    if name == "weights_binary":
        return options.weights == "incbin"
    if name in ("image", "image_layout"):
        return options.weights == "image"
    if name == "image_hex":
        return options.weights == "image" and options.image_address is not None
    if name == "merged":
        return options.optimize == "size"
    has_tiles = is_tiled(target.memories)
    is_several = target.resources[1] > 1
    needed = {
        "port_header": has_tiles or is_several,
        "port_source": has_tiles,
        "cores_source": is_several,
    }
    return needed.get(name, True)


_VARIABLES = {
    "HEADERS": ("header", "weights_header", "port_header"),
    "SOURCES": ("source", "weights_source"),
    "BINARIES": ("weights_binary",),
    "IMAGES": ("image", "image_hex"),
    "PORT": ("port_source", "cores_source"),
    "ARCHIVE": ("archive",),
}
"""Of an archive nobody needs the sources; of the sources all that they include or embed."""


def _prefix(build: Build) -> str:
    """Return the beginning of the variables of one build: DLBUILD_board_kws."""
    target = "".join(letter if letter.isalnum() else "_" for letter in build.target)
    return f"DLBUILD_{target}_{build.model}"
