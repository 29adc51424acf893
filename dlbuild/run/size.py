"""What an object takes of a firmware's memories, read from the object itself."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.ir.target import Memory, Target, weights_memories, weights_memory
from dlbuild.run.toolchain import resolve, run

_ROW = re.compile(r"^(\.\S+)\s+(\d+)\s+\d+\s*$", re.MULTILINE)
# Sections that are not loaded: notes for the linker, the debugger and the unwinder.
_NOT_LOADED = re.compile(
    r"^\.(comment|note|debug|gnu|ARM\.attributes|riscv\.attributes|symtab|strtab|shstrtab|rel)"
)
_KINDS = (
    ("text", re.compile(r"^\.(text|init|fini)(\.|$)")),
    ("rodata", re.compile(r"^\.(rodata|srodata|sdata2|ARM\.ex|eh_frame)")),
    ("bss", re.compile(r"^\.(bss|sbss)(\.|$)")),
    ("data", re.compile(r"^\.(data|sdata)(\.|$)")),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of an object, or of several together, by what they are.

    A section of the user's own name counts as rodata: only tables and code have macros for one,
    and both lie in flash.
    """

    text: int = 0
    rodata: int = 0
    data: int = 0
    bss: int = 0

    @property
    def flash_bytes(self) -> int:
        """Code, constants, and the start values of variables."""
        return self.text + self.rodata + self.data

    def __add__(self, other: Size) -> Size:
        return Size(
            self.text + other.text,
            self.rodata + other.rodata,
            self.data + other.data,
            self.bss + other.bss,
        )


def size_of(name: str, content: bytes, target: Target) -> Size:
    """Return what the object `name` takes, by the `size` program of the target's toolchain.

    Raises:
        UserError: there is no such program, or it cannot read the object.
    """
    command = target.toolchain.size
    program = resolve(command)
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as work:
        (Path(work) / name).write_bytes(content)
        done = run([*program, "-A", "-d", name], Path(work))
    if done.status != 0:
        raise UserError(
            f"{command} cannot read {name}",
            details=done.text.splitlines()[:5],
            fix="name the 'size' of the compiler's own toolchain",
        )
    return size_from(done.text)


def size_from(text: str) -> Size:
    """Return the sums of what `size -A -d` printed, section by section."""
    sums = dict.fromkeys(("text", "rodata", "data", "bss"), 0)
    for section, count in _ROW.findall(text):
        if _NOT_LOADED.match(section):
            continue
        kind = next((kind for kind, pattern in _KINDS if pattern.match(section)), "rodata")
        sums[kind] += int(count)
    return Size(**sums)


def total(sizes: Sequence[Size]) -> Size:
    """Return the sum of several objects."""
    return sum(sizes, Size())


def sizes_of(objects: Mapping[str, bytes], target: Target) -> Mapping[str, Size]:
    """Return the size of each object by its name."""
    return {name: size_of(name, content, target) for name, content in objects.items()}


def flash_memory(target: Target) -> Memory | None:
    """Return the memory in which code and tables lie: the farthest that may hold weights."""
    return weights_memory(target.memories)


def code_memory(target: Target) -> Memory | None:
    """Return the memory of code whose weights are flashed apart: the nearest that may hold them."""
    return next(iter(weights_memories(target.memories)), None)
