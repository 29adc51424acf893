"""What verbs have in common: the recipe, and the part of it that was asked for."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.spelling import suggestion
from dlbuild.build.project import Recipe
from dlbuild.build.recipe import PROJECT_FILE, read_recipe
from dlbuild.cli.arguments import Parser


def add_targets(parser: Parser) -> None:
    """Add the argument that names targets."""
    parser.add_argument(
        "positional", nargs="*", metavar="TARGET", help="only these targets (default: all)"
    )
    parser.add_argument(
        "--target", dest="named", action="append", default=[], metavar="TARGET", help="the same"
    )


def asked_targets(given: argparse.Namespace) -> list[str]:
    """Return the targets that the command line names, in either way; none = all."""
    return [*given.positional, *given.named]


def add_jobs(parser: Parser) -> None:
    """Add the options of verbs that build."""
    parser.add_argument(
        "-j",
        metavar="N",
        dest="jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="stages at once (default: the number of processors)",
    )
    parser.add_argument(
        "-k",
        "--keep-going",
        action="store_true",
        help="after a failure, build what can be built",
    )
    remote = parser.add_argument_group("remote cache")
    remote.add_argument(
        "--remote-cache",
        metavar="URL",
        default=os.environ.get("DLBUILD_REMOTE_CACHE", ""),
        help="a server of Bazel's protocol (default: $DLBUILD_REMOTE_CACHE, or none)",
    )
    remote.add_argument(
        "--remote-upload",
        choices=("never", "always"),
        default=os.environ.get("DLBUILD_REMOTE_UPLOAD", "never"),
        help="keep what is made there as well (default: $DLBUILD_REMOTE_UPLOAD, or never)",
    )


def whole_recipe(given: argparse.Namespace) -> Recipe:
    """Read dlbuild.yaml with the overrides of the command line."""
    return read_recipe(Path(PROJECT_FILE), given.overrides)


def selected(recipe: Recipe, targets: Sequence[str]) -> Recipe:
    """Return the recipe with the builds of some targets alone; none named = all.

    Raises:
        UserError: no build is for such a target.
    """
    if not targets:
        return recipe
    known = list(dict.fromkeys(build.target for build in recipe.builds))
    for name in targets:
        if name not in known:
            raise _unknown(name, known, recipe)
    return replace(recipe, builds=tuple(b for b in recipe.builds if b.target in targets))


def _unknown(name: str, known: Sequence[str], recipe: Recipe) -> UserError:
    """Return what to say of a word that names no target for which something is built."""
    what, why = f"nothing is built for a target '{name}'", ""
    of_model = list(dict.fromkeys(b.target for b in recipe.builds if b.model == name))
    fix = suggestion(name, known)
    if name in recipe.models:
        why = f"'{name}' is a model, and what is built is chosen by targets"
        fix = f"name a target that it is built for: {', '.join(of_model)}" if of_model else fix
    elif name in recipe.targets:
        why = "the recipe has that target, but no line of 'builds' is for it"
    return UserError(what, where=PROJECT_FILE, why=why, fix=fix, exit_code=2)
