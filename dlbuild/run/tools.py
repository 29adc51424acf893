"""The programs and libraries that targets need: whether they are there, and who brings them."""

import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from dlbuild.ir.target import Target
from dlbuild.run.packages import library_package, package_of, way_to
from dlbuild.run.stack_code import objdump_of
from dlbuild.run.toolchain import accepts_text, identify


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing that targets need.

    found: what it says of itself, empty if it is missing. package: Debian's, or pip's.
    purpose: what it is for. is_optional: dlbuild does without it, and says what is lost.
    """

    name: str
    found: str
    package: str
    purpose: str
    is_optional: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether something cannot be done."""
        return not self.found and not self.is_optional


def tools_of(targets: Sequence[Target]) -> tuple[Tool, ...]:
    """Return what targets need, each once, in their order; what is optional comes last."""
    needed = [tool for target in targets for tool in _of_target(target)]
    return tuple(dict.fromkeys((*needed, *_optional())))


def _of_target(target: Target) -> Iterator[Tool]:
    tool = target.toolchain
    yield _program(tool.cc, "compiles")
    if shutil.which(_first(tool.cc)):
        yield _library(target)
    yield _program(tool.ar, "makes the archive")
    yield _program(tool.size, "tells the size of objects")
    if target.board is not None:
        yield _program(objdump_of(tool.size), "tells the stack of library functions")
    if target.runner:
        yield _program(_first(target.runner), "runs programs of the target")


def _first(command: str) -> str:
    return shlex.split(command)[0] if command.strip() else command


def _program(command: str, purpose: str) -> Tool:
    """A program; its version is asked only of what is known to answer."""
    name = _first(command)
    path = shutil.which(name)
    package = (
        f"apt-get install {package_of(name)}" if package_of(name) else way_to(name, "toolchain")
    )
    if path is None:
        return Tool(name, "", package, purpose)
    lines = identify(name).splitlines() if package_of(name) else []
    return Tool(name, lines[0] if lines else path, package, purpose)


def _library(target: Target) -> Tool:
    """Ask the compiler whether it has the headers that generated C may include."""
    tool = target.toolchain
    is_bare = "-ffreestanding" in tool.cflags
    text = "#include <stdint.h>\n" if is_bare else "#include <math.h>\n#include <stdint.h>\n"
    found = "there" if accepts_text(tool.cc, tool.cflags, text) else ""
    package = f"apt-get install {library_package(tool.cc)}"
    return Tool(f"C library of {_first(tool.cc)}", found, package, "has math.h")


def _optional() -> Iterator[Tool]:
    valgrind = shutil.which("valgrind") or ""
    yield Tool(
        *("valgrind", valgrind, "apt-get install valgrind"),
        "counts instructions on this machine; without it bench takes the time",
        is_optional=True,
    )
    try:
        found = version("onnxruntime")
    except PackageNotFoundError:
        found = ""
    yield Tool(
        *("onnxruntime", found, "pip install 'dlbuild[ort]'"),
        "says what a model computes; without it onnx's evaluator does",
        is_optional=True,
    )
