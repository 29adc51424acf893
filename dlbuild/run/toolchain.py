"""The programs that turn C into objects: found, named by version, and run the same everywhere."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.run.packages import way_to

SECONDS = 900
"""After so long a compiler hangs."""

# Variables that change what gcc or clang makes (GCC manual, "Environment Variables").
_AMBIENT = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "SOURCE_DATE_EPOCH",
    "CCC_OVERRIDE_OPTIONS",
    "GCC_COLORS",
)
_SHOWN_LINES = 30
_BROKEN_OFF = re.compile(
    r"Killed|signal terminated program|due to signal|internal compiler error|error in backend"
    r"|out of memory|memory exhausted|[Cc]annot allocate|bad_alloc|No space left on device"
)
_STATUS_OF_SHELL = 126
"""From here on a shell's exit status tells of a program that it could not run, or of a signal."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program did: its exit status and what it printed, both streams together."""

    status: int
    text: str

    @property
    def is_broken_off(self) -> bool:
        """Whether it did not come to an end of its own.

        By a signal, for want of memory or of room on the disk, or by a fault of a compiler.
        """
        return not 0 <= self.status < _STATUS_OF_SHELL or bool(_BROKEN_OFF.search(self.text))

    @property
    def shown(self) -> Sequence[str]:
        """What it printed; of much the beginning."""
        lines = self.text.splitlines()
        more = len(lines) - _SHOWN_LINES
        return [*lines[:_SHOWN_LINES], f"and {more} more lines"] if more > 0 else lines


def identify(command: str) -> str:
    """Return what tells one program from another: its answer to `--version`, and its content.

    The content of each file that the command names counts, as a script that calls a compiler may
    change under the compiler's version.

    Args:
        command: a field of a target's toolchain.

    Raises:
        UserError: there is no such program; says what to install.
    """
    words = resolve(command)
    found = [shutil.which(word) for word in words]
    contents = [sha256(Path(path).read_bytes()) for path in found if path]
    return "\n".join((run([*words, "--version"], Path.cwd()).text, *contents))


def resolve(command: str, key: str = "toolchain") -> list[str]:
    """Return a command as absolute program and arguments.

    Args:
        command: the program, perhaps with arguments.
        key: which key of a target names it.

    Raises:
        UserError: there is no such program; says what to install.
    """
    # A path with spaces in it, else a program with arguments (`ccache gcc`).
    for words in ([command], shlex.split(command)):
        found = shutil.which(words[0]) if words else None
        if found:
            return [os.path.abspath(found), *words[1:]]  # noqa: PTH100 - keeps cc's link
    raise UserError(
        f"there is no program '{command}'",
        why=f"the target's {key} names it",
        fix=way_to(command.split(maxsplit=1)[0] if command.split() else command, key),
    )


def run(command: Sequence[str], folder: Path) -> Finished:
    """Run a program in `folder`, in English, without the variables that change objects.

    Raises:
        UserError: it cannot be started, or does not end.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _AMBIENT}
    environment["LC_ALL"] = "C"
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except OSError as fault:
        raise UserError(
            f"'{command[0]}' cannot be run: {fault.strerror}",
            fix="check the target's 'toolchain'",
        ) from fault
    except subprocess.TimeoutExpired as fault:
        raise UserError(f"'{command[0]}' ran longer than {SECONDS} s") from fault
    return Finished(done.returncode, done.stdout.decode(errors="replace"))


def broken_off(what: str, done: Finished, where: str = "") -> UserError:
    """Return what to tell of a program that did not come to an end of its own."""
    return UserError(
        f"{what} (exit status {done.status})",
        where=where,
        details=done.shown,
        fix="leave it more memory and room on the disk, and build again",
    )


@cache
def accepts(command: str, flag: str) -> bool:
    """Return whether a compiler knows a flag.

    Raises:
        UserError: it is broken off, so that it does not say.
    """
    words = [*resolve(command), flag, "-Werror", "-fsyntax-only", "-x", "c", os.devnull]
    # A folder of its own: some flags make files, even for nothing.
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as folder:
        done = run(words, Path(folder))
    if done.is_broken_off:
        raise broken_off(f"{command} was broken off when asked for {flag}", done)
    return done.status == 0


def accepts_text(command: str, flags: Sequence[str], text: str) -> bool:
    """Return whether a compiler with these flags compiles a text of C."""
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as folder:
        (Path(folder) / "probe.c").write_text(text, encoding="ascii")
        words = [*resolve(command), *flags, "-fsyntax-only", "probe.c"]
        return run(words, Path(folder)).status == 0
