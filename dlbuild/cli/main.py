"""From the command line to a verb, and from what it raises to an exit code."""

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from dlbuild.base.errors import UserError
from dlbuild.base.spelling import suggestion
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.request import request_of
from dlbuild.cli.arguments import Parser, parser_of
from dlbuild.cli.terminate import terminate
from dlbuild.cli.verbs import VALUE_OPTIONS, VERBS, Verb, usage

INTERNAL = 3
_INTERRUPTED = 128 + signal.SIGINT


class VerbModule(Protocol):
    """A module that VERBS names."""

    arguments: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]


def run(arguments: Sequence[str], started_ns: int = 0) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: the command line without the program's name.
        started_ns: when the program was started; inputs newer than that were changed meanwhile.
    """
    signal.signal(signal.SIGTERM, terminate)
    try:
        return _run(arguments, started_ns)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough; nothing more may be written, not even at exit.
        sys.stdout = None
        return 0
    except Exception as error:  # noqa: BLE001 - the last resort
        return _told(error, arguments)


def _run(arguments: Sequence[str], started_ns: int) -> int:
    name, rest = _split(arguments)
    if name in {"", "help"}:
        print(usage())
        return 0 if {"-h", "--help", "help"} & set(arguments) else 2
    if name not in VERBS:
        raise UserError(
            f"there is no verb '{name}'", where="dlbuild", fix=suggestion(name, VERBS), exit_code=2
        )
    verb = VERBS[name]
    module = _module(verb)
    parser = parser_of(verb.name, verb.summary)
    module.arguments(parser)
    given = parser.read(rest)
    given.started_ns = started_ns
    given.command = tuple(arguments)
    return module.run(given)


def _split(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the verb and all else."""
    is_value = False
    for position, argument in enumerate(arguments):
        if not is_value and not argument.startswith("-"):
            return argument, [*arguments[:position], *arguments[position + 1 :]]
        is_value = argument in VALUE_OPTIONS
    if "--version" in arguments:
        return "version", []
    unknown = [word for word in arguments if word not in {"-h", "--help", "--debug"}]
    if unknown:
        raise UserError(
            f"there is no option '{unknown[0]}' before a verb", fix="name a verb", exit_code=2
        )
    return "", list(arguments)


def _module(verb: Verb) -> VerbModule:
    # Only the verb that runs is imported.
    return cast("VerbModule", import_module(verb.module))


def _told(error: Exception, arguments: Sequence[str]) -> int:
    """Print what was raised; of several, each once and in order."""
    if isinstance(error, ExceptionGroup):
        different = {str(one): one for one in error.exceptions}
        faults = [_told(one, arguments) for one in different.values()]
        return INTERNAL if INTERNAL in faults else faults[0]
    if isinstance(error, UserError):
        print(error, file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.filename and error.strerror:
        # A full disk, a folder without permission: nothing that dlbuild could have known.
        print(UserError(error.strerror, where=str(error.filename)), file=sys.stderr)
        return 1
    trace = "".join(traceback.format_exception(error))
    if "--debug" in arguments:
        print(trace, end="", file=sys.stderr)
    else:
        _, out = request_of(list(arguments))
        where = _keep(trace, Path(out))
        print(
            f"internal error: {type(error).__name__}: {error}\n"
            f"  why: a fault of dlbuild, not of your files\n"
            f"  fix: report it with {where}",
            file=sys.stderr,
        )
    return INTERNAL


def _keep(trace: str, out: Path) -> str:
    """Write the traceback beside the build's state; if that fails, --debug shows it."""
    path = out / STATE_FOLDER / "internal-error.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trace, encoding="utf-8")
    except OSError:
        return "what --debug prints"
    return path.as_posix()
