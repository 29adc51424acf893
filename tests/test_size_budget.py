"""A module fits in one reading, a function on one screen, and each public name says what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "dlbuild").rglob("*.py"))
MODULE_LINES = 400
FUNCTION_LINES = 50

Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Defined]:
    """Yield what a module or a public class defines under a name without an underscore."""
    for node in tree.body:
        if isinstance(node, Defined) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def test_modules_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert not {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > MODULE_LINES}


def test_functions_are_short() -> None:
    long = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = length
    assert not long


def test_public_names_have_a_docstring() -> None:
    bare = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            bare.append(str(path.relative_to(ROOT)))
        bare += [
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
            for node in public(tree)
            if not ast.get_docstring(node) and not _is_trivial(node)
        ]
    assert not bare


def _is_trivial(node: Defined) -> bool:
    """A method that fulfils another library's interface (`...`), or the run of a callable class."""
    return isinstance(node, ast.FunctionDef) and isinstance(node.body[0], ast.Expr | ast.Return)
