"""Imports go down only, and each outside library has its one place."""

import ast
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dlbuild"
MODULES = sorted(PACKAGE.rglob("*.py"))

PLACES = {
    "doit": ["build/tasks.py"],
    "jinja2": ["emit/*"],
    "onnx": [
        "stages/parse*",
        "stages/rewrites*",
        "stages/annotate.py",
        "run/verify*.py",
        "run/reference*.py",
        "run/quantize.py",
    ],
    "onnxruntime": ["run/reference*.py", "run/quantize.py"],
    "rich": ["cli/*", "report/*"],
}


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the name of each imported module, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def within(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_floors_import_only_what_lies_below() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("library", sorted(PLACES))
def test_a_library_is_imported_only_in_its_place(library: str) -> None:
    strays = [
        within(path)
        for path in MODULES
        if any(name.split(".")[0] == library for name in imported(path))
        and not any(fnmatch(within(path), place) for place in PLACES[library])
    ]
    assert not strays


def test_no_modules_import_each_other() -> None:
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    uses = {name: sorted(names.keys() & imported(path)) for name, path in names.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in uses[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in sorted(uses):
        visit(name, ())
