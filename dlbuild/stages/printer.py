"""The templates of a build."""

from dlbuild.emit.environment import Environment, environment
from dlbuild.ir.target import Options
from dlbuild.rulebook.load import RuleBook


def printer_of(book: RuleBook, options: Options) -> Environment:
    """Return the templates that the build's options ask for."""
    folders = [folder / "templates" for folder in book.folders]
    return environment(folders, is_small=options.optimize == "size")
