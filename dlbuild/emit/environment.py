"""The Jinja environment of all templates."""

from collections.abc import Sequence
from functools import cache
from math import prod
from pathlib import Path

import jinja2

Environment = jinja2.Environment
"""Templates of the search path, compiled once."""


def environment(folders: Sequence[Path]) -> jinja2.Environment:
    """Return the environment that looks for templates in `folders`, first found first.

    A name that a template uses and nobody defines is an error. A template is compiled once in a
    process, again if its file has changed.
    """
    return _of(tuple(folders))


@cache
def _of(folders: tuple[Path, ...]) -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(folder) for folder in folders]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # C, not HTML: nothing is escaped.
        autoescape=False,  # noqa: S701
    )
    made.filters["product"] = prod
    return made
