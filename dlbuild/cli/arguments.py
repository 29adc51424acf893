"""The parser of one verb: its own arguments and those that all verbs share."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from dlbuild.base.errors import UserError
from dlbuild.base.spelling import suggestion


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors look like all others and say what was meant."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise UserError(message, where=self.prog, fix=f"see {self.prog} --help", exit_code=2)

    @property
    def options(self) -> list[str]:
        """All options, in the order in which they were added."""
        return [text for action in self._actions for text in action.option_strings]

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all arguments.

        Raises:
            UserError: an argument that is wrong or unknown.
        """
        known, unknown = self.parse_known_args(list(arguments))
        if unknown:
            options = self.options
            word = unknown[0].partition("=")[0]
            raise UserError(
                f"there is no option '{word}'" if word.startswith("-") else f"'{word}' is too much",
                where=self.prog,
                fix=suggestion(word, options) if word.startswith("-") else "leave it out",
                exit_code=2,
            )
        return known


def parser_of(verb: str, summary: str) -> Parser:
    """Return a parser with the options that every verb has."""
    parser = Parser(
        prog=f"dlbuild {verb}",
        description=summary,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common = parser.add_argument_group("options of every verb")
    common.add_argument("-C", metavar="DIR", dest="folder", help="go to this folder first")
    common.add_argument(
        "-B",
        metavar="DIR",
        dest="out",
        default="build/dlbuild",
        help="write results here (default: build/dlbuild)",
    )
    common.add_argument(
        "-D",
        metavar="KEY=VALUE",
        dest="overrides",
        action="append",
        default=[],
        help="override an option of every build, or the size of memory.NAME",
    )
    common.add_argument("--debug", action="store_true", help="show a traceback of internal errors")
    return parser
