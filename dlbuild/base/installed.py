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
    _, version, folder = _found(library)
    return version, folder


def metadata_file(library: str) -> str:
    """Return a file that this version of a distribution brings; the empty text if it is absent."""
    entry, _, folder = _found(library)
    return f"{folder}/{entry}/METADATA" if entry else ""


def record_file(library: str, folder: str) -> str:
    """Return the list of the files of a distribution, with a digest of each, if `folder` has it.

    It is rewritten by whatever installs the distribution again. The empty text: what is in `folder`
    was not installed there, as in a checkout, or by something that leaves no such list.
    """
    entry, _, found = _found(library)
    path = f"{folder}/{entry}/RECORD"
    return path if entry and os.path.realpath(found) == folder and os.path.isfile(path) else ""  # noqa: PTH113 - as above


def _found(library: str) -> tuple[str, str, str]:
    """Return the name of the folder that describes a distribution, its version, and where it is."""
    wanted = _plain(library)
    for folder in sys.path:
        for name, version, entry in _distributions(folder):
            if name == wanted:
                return entry, version, folder
    return "", "", ""


@cache
def _distributions(folder: str) -> tuple[tuple[str, str, str], ...]:
    """Return the names and versions of what a folder has, and the folders that describe them."""
    try:
        names = sorted(os.listdir(folder or "."))  # noqa: PTH208 - as the import system has it
    except OSError:
        return ()
    found = []
    for entry in names:
        if entry.endswith(_SUFFIX):
            name, _, version = entry.removesuffix(_SUFFIX).partition("-")
            found.append((_plain(name), version, entry))
    return tuple(found)


def _plain(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()
