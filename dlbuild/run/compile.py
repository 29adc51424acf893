"""C files become objects and an archive, byte for byte the same wherever they are made."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.ir.target import Options, Target
from dlbuild.run.packages import library_package
from dlbuild.run.toolchain import Finished, accepts, broken_off, resolve, run

WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wcast-qual",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wundef",
)
"""What generated C must be free of (ARCHITECTURE, section 7)."""

CALL_GRAPH = "-fcallgraph-info=su"
"""gcc 10 and later: a file beside the object with each function's stack and what it calls."""

# Where in a text of C or of assembler what is said holds: of the text, not of the compiler's run.
_FAULT_OF_TEXT = re.compile(r"^\S.*?:\d+(:\d+)?: [Ee]rror: ", re.MULTILINE)
_NO_LIBRARY = re.compile(r"(math|stdint|stdlib)\.h: No such file|picolibc\.specs")


class RefusalError(UserError):
    """The compiler finds a fault in the text that it was given, and names its place.

    Without it another text may compile; any other `UserError` says nothing of the text.
    """


@dataclass(frozen=True, slots=True)
class Compiled:
    """One object. call_graph: the text of gcc's call graph, empty if the compiler has none."""

    content: bytes
    call_graph: str = ""


def flags(target: Target, options: Options) -> tuple[str, ...]:
    """Return the compiler's flags; the target's own come last, so that they win."""
    return (*WARNINGS, "-Werror", *code_flags(target, options))


def optimization(options: Options) -> str:
    """Return the compiler's level of optimisation."""
    return "-Os" if options.optimize == "size" else "-O2"


def code_flags(target: Target, options: Options) -> tuple[str, ...]:
    """Return those of the compiler's flags that say what code it makes."""
    return (
        "-std=c99",
        optimization(options),
        # A linker can drop what a firmware does not call.
        "-ffunction-sections",
        "-fdata-sections",
        *target.toolchain.cflags,
    )


def compile_file(  # noqa: PLR0913 - a compiler's inputs
    name: str,
    files: Mapping[str, bytes],
    target: Target,
    options: Options,
    where: str = "",
    *,
    has_code: bool = True,
) -> Compiled:
    """Compile one of `files`.

    Args:
        name: the C file among them.
        files: all that it includes or embeds, by name.
        target: its toolchain is used.
        options: the build's options.
        where: how an error names the build: `model@target`.
        has_code: whether there are functions in it, whose call graph is wanted.

    Raises:
        RefusalError: the compiler refuses the text; shows what it says.
        UserError: there is no compiler, or it refuses its flags, or it is broken off: for want
            of memory or of room on the disk, by a signal or by a fault of its own.
    """
    cc = target.toolchain.cc
    program = resolve(cc)
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as work:
        folder = Path(work)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        made = folder / f"{Path(name).stem}.o"
        graph = [CALL_GRAPH] if has_code and accepts(cc, CALL_GRAPH) else []
        # The names are relative, and what debugging information says of the folder is mapped.
        place = [f"-ffile-prefix-map={work}=.", "-I."]
        given = [*flags(target, options), *graph, *place, "-c", name, "-o", made.name]
        done = run([*program, *given], folder)
        if done.status != 0 or not made.is_file():
            raise _fault(cc, name, done, where, flags(target, options))
        text = made.with_suffix(".ci")
        return Compiled(made.read_bytes(), text.read_text() if text.is_file() else "")


def archive(name: str, objects: Mapping[str, bytes], target: Target, where: str = "") -> bytes:
    """Return the archive `name` of objects, without times, owners or paths in it.

    Raises:
        UserError: there is no archiver, or it refuses.
    """
    ar = target.toolchain.ar
    program = resolve(ar)
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as work:
        folder = Path(work)
        for file, content in objects.items():
            (folder / file).write_bytes(content)
        # D: no times and owners. c: no message. s: an index.
        done = run([*program, "rcsD", name, *objects], folder)
        if done.status != 0:
            raise _fault(ar, name, done, where, ())
        return (folder / name).read_bytes()


def _fault(command: str, name: str, done: Finished, where: str, given: Sequence[str]) -> UserError:
    if done.is_broken_off:
        return broken_off(f"{command} was broken off at {name}", done, where)
    kind = RefusalError if _FAULT_OF_TEXT.search(done.text) else UserError
    return kind(
        f"{command} refuses {name}",
        where=where,
        details=done.shown,
        why=f"flags: {' '.join(given)}" if given else "",
        fix=_fix(command, done.text),
    )


def _fix(command: str, text: str) -> str:
    if _NO_LIBRARY.search(text):
        package = library_package(command)
        return f"install the compiler's C library (Debian: apt-get install {package})"
    return "check 'cflags' and 'cc' of the target's toolchain"
