"""The rules that a stage sees."""

from functools import cache
from pathlib import Path

from dlbuild.base.paths import builtin_folder
from dlbuild.emit.helpers import helper_names
from dlbuild.rulebook.load import RuleBook, load_rules


@cache
def book_of(folders: tuple[Path, ...]) -> RuleBook:
    """Return the rules of `folders`, given as they are searched: packs first, built-in ones last.

    Read once in a process, until `forget_rules`; a build in progress does not see edits.
    """
    # Tests look at every rule of ours; a user's pack may be of today.
    return load_rules(folders[::-1], trusted=builtin_folder())


def forget_rules() -> None:
    """Read rules anew from now on, and which helpers there are: files may have changed."""
    book_of.cache_clear()
    helper_names.cache_clear()
