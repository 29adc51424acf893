"""The rules that a stage sees."""

from functools import cache
from pathlib import Path

from dlbuild.base.paths import builtin_folder
from dlbuild.rulebook.load import RuleBook, load_rules


@cache
def book_of(folders: tuple[Path, ...]) -> RuleBook:
    """Return the rules of `folders`, given as they are searched: packs first, built-in ones last.

    Read once in a process; a build in progress does not see edits.
    """
    # Tests look at every rule of ours; a user's pack may be of today.
    return load_rules(folders[::-1], trusted=builtin_folder())
