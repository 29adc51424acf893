"""A C program with one translation unit of ours and the model's tables, compiled and run here."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.target import Target
from dlbuild.run.cores import core_flags
from dlbuild.run.lines import Said, take
from dlbuild.run.toolchain import resolve, run

HOST_COMPILER = "cc"
SECONDS = 1800


class Runnable(Protocol):
    """A program, wherever it runs."""

    def run(self, sent: bytes) -> bytes:
        """Run it on `sent` and return what it wrote."""


class Maker(Protocol):
    """Makes programs for one place to run them.

    note: what the user should know if that is not the target.
    """

    @property
    def note(self) -> str:
        """A sentence, or nothing."""

    def program(self, text: str, name: str, sources: Sequence[Path], work: Path) -> Runnable:
        """Compile `text` and `sources` into the program `name` in the folder `work`.

        Args:
            text: C source; it may include what lies beside the first of `sources`.
            name: of the program, without a suffix.
            sources: further C files, objects or archives.
            work: an existing folder.

        Raises:
            UserError: there is no such compiler, or it refuses.
        """


@dataclass(frozen=True, slots=True)
class Compiler:
    """How programs that run on this machine are compiled.

    note: what the user should know if it is not the target's own compiler.
    """

    command: str
    flags: tuple[str, ...] = ()
    note: str = ""

    def program(self, text: str, name: str, sources: Sequence[Path], work: Path) -> Program:
        """See Maker."""
        return compile_program(text, name, sources, self, work)


@dataclass(frozen=True, slots=True)
class Program:
    """An executable and the folder of its input and output files."""

    file: Path

    def run(self, sent: bytes) -> bytes:
        """Run it on `sent` and return what it wrote."""
        return bytes(self.listen(sent).content)

    def listen(self, sent: bytes, under: Sequence[str] = ()) -> Said:
        """Run it on `sent`.

        Args:
            sent: what it reads.
            under: a command that runs it, such as valgrind.

        Raises:
            UserError: it failed, or took too long.
        """
        source, result = self.file.with_suffix(".in"), self.file.with_suffix(".out")
        source.write_bytes(sent)
        command = [*under, str(self.file), str(source), str(result)]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired as fault:
            raise UserError(f"the program ran longer than {SECONDS} s", where=self._name) from fault
        if done.returncode != 0:
            # A negative code is a signal's number (POSIX).
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"{done.returncode}"
            raise UserError(
                f"the generated C failed when run here: exit {how}",
                where=self._name,
                details=done.stderr.decode(errors="replace").splitlines()[:20],
            )
        said = Said(bytearray(result.read_bytes()), is_done=True)
        for line in done.stdout.decode(errors="replace").splitlines():
            take(line, said)
        source.unlink()
        result.unlink()
        return said

    @property
    def _name(self) -> str:
        return self.file.name


def compiler_for(target: Target, extra: Sequence[str] = ()) -> Compiler:
    """Return the target's compiler if its programs run here, else this machine's."""
    tool = target.toolchain
    extra = (*core_flags(target), *extra)
    if _machine(tool.cc) == _machine(HOST_COMPILER):
        return Compiler(tool.cc, (*tool.cflags, *extra))
    note = (
        f"target '{target.name}' has no runner: its C was compiled and run here with"
        f" {HOST_COMPILER}, not with {tool.cc}"
    )
    return Compiler(HOST_COMPILER, ("-O2", *extra), note)


def _machine(command: str) -> str:
    """Return the processor that a compiler makes code for: `x86_64`, `arm`."""
    done = run([*resolve(command), "-dumpmachine"], Path.cwd())
    return done.text.strip().split("-")[0] if done.status == 0 else ""


def compile_program(
    text: str, name: str, sources: Sequence[Path], compiler: Compiler, work: Path
) -> Program:
    """Compile `text` and `sources` into an executable in the folder `work`.

    Args:
        text: C source; it may include what lies beside the first of `sources`.
        name: of the program, without a suffix.
        sources: further C files.
        compiler: what to use.
        work: an existing folder.

    Raises:
        UserError: there is no such compiler, or it refuses.
    """
    work = work.resolve()
    main, made = work / f"{name}.c", work / name
    main.write_text(text, encoding="ascii")
    program = resolve(compiler.command)
    boards = builtin_folder() / "boards"
    given = [f"-I{sources[0].parent.resolve()}", f"-I{boards}", str(main)]
    given += [*(str(source.resolve()) for source in sources), str(boards / "host.c")]
    done = run([*program, "-std=c99", *compiler.flags, *given, "-o", str(made), "-lm"], work)
    if done.status != 0:
        raise UserError(
            f"{compiler.command} refuses the program that runs the model",
            where=main.name,
            details=done.text.splitlines()[:20],
        )
    return Program(made)
