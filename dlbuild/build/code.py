"""Which source files a module can reach by imports: their digests are in the key of a stage."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dlbuild.base.paths import package_folder
from dlbuild.build.remembered import read_noted

_PACKAGE = package_folder()
_IMPORT = re.compile(r"\n[ \t]*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([^\n]*))")
"""Begins with the end of a line, which is found in half the time that `^` takes."""
_NAME = re.compile(r"[\w.]+")
_REMARK = re.compile(r"#[^\n]*")


@dataclass
class CodeDigests:
    """Digests of modules and of what they import, each file read once."""

    _reached: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _files: dict[str, tuple[str, tuple[str, ...]] | None] = field(default_factory=dict)

    def reachable(self, module: str) -> Mapping[str, str]:
        """Return the SHA-256 of each module that `module` can reach in its own package.

        Imports inside functions count. Only modules of the same top package are followed; other
        packages are in a key by their versions.
        """
        if module in self._reached:
            return self._reached[module]
        found: dict[str, str] = {}
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            read = self._read(name)
            if read is not None:
                digest, imports = read
                found[name] = digest
                waiting += imports
        self._reached[module] = {name: found[name] for name in sorted(found)}
        return self._reached[module]

    def _read(self, module: str) -> tuple[str, tuple[str, ...]] | None:
        if module not in self._files:
            path = _source_of(module)
            if path is None:
                self._files[module] = None
            else:
                content, digest = read_noted(path.as_posix())
                top = module.partition(".")[0]
                imports = dict.fromkeys(
                    name
                    for imported in (module, *_imports(content.decode(), top))
                    for name in _with_parents(imported)
                )
                named = tuple(name for name in imports if _source_of(name) is not None)
                self._files[module] = (digest, named)
        return self._files[module]


def _imports(text: str, top: str) -> Iterator[str]:
    """Yield each name that an import statement may mean as a module of the package `top`.

    A text search, since a syntax tree takes 30 times as long; a name too many does no harm.
    """
    for module, names, plain in _IMPORT.findall(f"\n{text}"):
        if plain:
            yield from (name for name in _NAME.findall(plain) if name.partition(".")[0] == top)
        elif module.partition(".")[0] == top:
            yield module
            for name in _NAME.findall(_REMARK.sub("", names)):
                yield f"{module}.{name}"


@cache
def _with_parents(module: str) -> tuple[str, ...]:
    """Importing a.b.c runs a and a.b first."""
    parts = module.split(".")
    return tuple(".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _source_of(module: str) -> Path | None:
    """Return the file of a module without importing it; None if there is no such module."""
    parts = module.split(".")
    if parts[0] == _PACKAGE.name:
        return _modules_of(_PACKAGE).get(module)
    spec = find_spec(parts[0]) if len(parts) == 1 else None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@cache
def _modules_of(package: Path) -> Mapping[str, Path]:
    """Return the file of each module of a package; one walk instead of a look for each name."""
    found = {}
    for folder, _, names in os.walk(package):
        inside = os.path.relpath(folder, package.parent).replace(os.sep, ".")
        for name in names:
            if name == "__init__.py":
                found[inside] = Path(folder, name)
            elif name.endswith(".py"):
                found[f"{inside}.{name[:-3]}"] = Path(folder, name)
    return found
