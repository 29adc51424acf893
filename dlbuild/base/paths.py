"""Where the built-in rules and templates are, in a checkout and in an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def builtin_folder() -> Path:
    """Return the folder that holds the built-in `rules` and `templates`.

    A wheel carries them inside the package; in a checkout they lie beside it.
    """
    inside = _PACKAGE / "_builtin"
    return inside if inside.is_dir() else _PACKAGE.parent


def package_folder() -> Path:
    """Return the folder of the package's own Python files."""
    return _PACKAGE
