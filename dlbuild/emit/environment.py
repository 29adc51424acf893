"""The Jinja environment of all templates."""

import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path

import jinja2

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.emit.ctypes import number
from dlbuild.emit.enumerators import with_used_enumerators
from dlbuild.emit.itext import bare

Environment = jinja2.Environment
"""Templates of the search path, compiled once."""

SMALL = "size"
"""The folder of what takes less flash, and more time, than the templates beside it."""


def environment(folders: Sequence[Path], *, is_small: bool = False) -> jinja2.Environment:
    """Return the environment that looks for templates in `folders`, first found first.

    A name that a template uses and nobody defines is an error. A template is compiled once in a
    process, again if its file has changed.

    is_small: what a folder has in `size/` stands in for its file of the same name.
    """
    places = [place for folder in folders for place in (folder / SMALL, folder)]
    return _of(tuple(places if is_small else folders))


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
    made.filters["literal"] = number
    made.filters["bare"] = bare
    return made


def rendered(made: jinja2.Environment, name: str, context: Mapping[str, object]) -> str:
    """Return the text of a kernel's template, without the sizes that it names and does not use.

    Raises:
        UserError: a template of a pack is wrong; names its line.
    """
    try:
        return with_used_enumerators(made.get_template(name).render(context))
    except UserError:
        raise
    except Exception as fault:
        if place := _place(fault):
            raise UserError(
                f"the template cannot be rendered: {_said(fault)}",
                where=place,
                fix="rules/README.md, 'Kernel templates', says what a template may name",
            ) from fault
        raise


def _place(fault: Exception) -> str:
    """Return `file:line` of the template in which something failed, or nothing if it is ours."""
    if isinstance(fault, jinja2.TemplateSyntaxError):
        file, line = fault.filename or "", fault.lineno
    else:
        frames = traceback.extract_tb(fault.__traceback__)
        found = [frame for frame in frames if frame.filename.endswith(".j2")]
        file, line = (found[-1].filename, found[-1].lineno or 1) if found else ("", 1)
    is_ours = Path(file).resolve().is_relative_to(builtin_folder().resolve())
    return "" if not file or is_ours else f"{file}:{line}"


def _said(fault: Exception) -> str:
    if isinstance(fault, KeyError):
        return f"there is no {fault}"
    return str(fault)
