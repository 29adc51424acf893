"""Versions of installed libraries, from the names of their folders.

`importlib.metadata` reads them from files and imports a parser of e-mail for that: 40 ms.
"""

import os
import re
import sys
from functools import cache

_SEPARATORS = re.compile(r"[-_.]+")
_SUFFIX = ".dist-info"


def installed(library: str) -> tuple[str, str]:
    """Return the version of a distribution and the folder that it is in; empty texts if absent."""
    wanted = _plain(library)
    for folder in sys.path:
        for name, version in _distributions(folder):
            if name == wanted:
                return version, folder
    return "", ""


@cache
def _distributions(folder: str) -> tuple[tuple[str, str], ...]:
    """Return the names and versions of what a folder has."""
    try:
        names = sorted(os.listdir(folder or "."))  # noqa: PTH208 - as the import system has it
    except OSError:
        return ()
    found = []
    for entry in names:
        if entry.endswith(_SUFFIX):
            name, _, version = entry.removesuffix(_SUFFIX).partition("-")
            found.append((_plain(name), version))
    return tuple(found)


def _plain(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
