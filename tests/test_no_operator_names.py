"""The program knows no operator by its name, except where it reads ONNX."""

import ast
from collections.abc import Iterator
from pathlib import Path

import onnx
import yaml

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dlbuild"
READERS = ("stages/parse", "stages/rewrites")


def operator_names() -> set[str]:
    """Return all operators of ONNX's domains and all that the built-in rules know."""
    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    for path in (ROOT / "rules" / "ops").glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            names |= {document["op"]} if "op" in document else set(document["ops"])
    return names


def own_names(tree: ast.Module) -> set[str]:
    """Return what a module assigns: a text that repeats it is a type that refers to itself."""
    assigned = (node for node in tree.body if isinstance(node, ast.Assign))
    return {t.id for node in assigned for t in node.targets if isinstance(t, ast.Name)}


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each text constant with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_text_of_the_package_is_an_operators_name() -> None:
    names = operator_names()
    assert {"Conv", "QGemm"} <= names
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.relative_to(PACKAGE).as_posix().startswith(READERS):
            tree = ast.parse(path.read_text())
            strange = names - own_names(tree)
            place = path.relative_to(ROOT)
            found += [f"{place}:{line}: {text!r}" for line, text in texts(tree) if text in strange]
    assert not found
