"""Stack of functions without source, such as the C library's, read from their machine code.

Arm and RISC-V code as binutils' or LLVM's objdump prints it. A function's stack is the sum of all
that its instructions take from the stack pointer, which is never less than what one call takes.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dlbuild.ir.target import Board, Target
from dlbuild.run.elf import symbols
from dlbuild.run.link import link_flags
from dlbuild.run.stack import Function
from dlbuild.run.toolchain import resolve, run

_LABEL = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_LINE = re.compile(r"^\s*[0-9a-f]+:\s+(\S+)\s*(.*)$")
_GOES = re.compile(r"(b|bl|blx|bx|b[a-z]{2}|b[a-z]{3,4}|cbn?z|j|jal|jalr|jr|call|tail)(\.[nw])?")
_BY_REGISTER = ("blx", "jalr", "jr")
_TARGET = re.compile(r"<([^>+]+)(\+0x[0-9a-f]+)?>")
_PUSH = re.compile(r"(?:push|vpush|stmdb|vstmdb|stmfd)(?:\.w)?")
_SUBTRACT = re.compile(r"sp, (?:sp, )?#([0-9]+)")
_STORE = re.compile(r".*\[sp, #-([0-9]+)\]!")
_ADD = re.compile(r"sp, ?sp, ?-([0-9]+)")
_DOUBLE = re.compile(r"\bd[0-9]+")

_SAVE = "__riscv_save_"  # GCC manual, -msave-restore


@dataclass
class _Draft:
    """A function while it is read. is_known: its stack and what it calls can be told."""

    size_bytes: int = 0
    calls: dict[str, None] = field(default_factory=dict)
    is_known: bool = True


def code_functions(
    objects: Mapping[str, bytes], start: str, target: Target
) -> Mapping[str, Function]:
    """Return the functions that `start` can reach, as they are when linked for a board.

    Nothing is returned if the target has no board, or if its code cannot be linked or read.

    Args:
        objects: by their names.
        start: where a run begins.
        target: its toolchain and the libraries of its board are used.
    """
    if target.board is None:
        return {}
    tool = target.toolchain
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as work:
        folder = Path(work)
        for name, content in objects.items():
            (folder / name).write_bytes(content)
        made = folder / "probe.elf"
        command = [*resolve(tool.cc), *tool.cflags, *objects, *_flags(start, target.board)]
        if run([*command, "-o", made.name], folder).status != 0:
            return {}
        disassembler = resolve(objdump_of(tool.size))
        text = run([*disassembler, "-d", "--no-show-raw-insn", made.name], folder).text
        return _named(functions_in(text), made)


def objdump_of(size: str) -> str:
    """Return the disassembler that comes with a `size` program."""
    head, _, tail = size.rpartition("size")
    return f"{head}objdump{tail}"


def _flags(start: str, board: Board) -> list[str]:
    # A hook is the user's, and a variable may be anywhere: neither is needed to read the code.
    free = ["-Wl,--unresolved-symbols=ignore-all", f"-Wl,-e,{start}"]
    return [*free, *link_flags(board)]


def _named(found: Mapping[str, Function], file: Path) -> Mapping[str, Function]:
    """Add the other names of each function: a library gives several to one."""
    by_address: dict[int, list[str]] = {}
    for symbol in symbols(file):
        # The lowest bit says that code is Thumb.
        by_address.setdefault(symbol.address & ~1, []).append(symbol.name)
    names = dict(found)
    for several in by_address.values():
        for function in [found[name] for name in several if name in found]:
            names |= dict.fromkeys(several, function)
    return names


def functions_in(text: str) -> Mapping[str, Function]:
    """Return the functions of a disassembly; those whose stack cannot be told are left out."""
    drafts: dict[str, _Draft] = {}
    name = ""
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label:
            name = label[2]
            drafts[name] = _Draft()
            continue
        found = _LINE.match(line)
        if found and name:
            _read(found[1], found[2], name, drafts[name])
    return {
        name: _function(draft, drafts)
        for name, draft in drafts.items()
        if draft.is_known and not name.startswith(_SAVE)
    }


def _function(draft: _Draft, drafts: Mapping[str, _Draft]) -> Function:
    """A prologue that is called, unlike other functions, leaves its stack to who called it."""
    saved = sum(drafts[name].size_bytes for name in draft.calls if name.startswith(_SAVE))
    calls = tuple(name for name in draft.calls if not name.startswith(_SAVE))
    return Function(draft.size_bytes + saved, calls)


def _read(mnemonic: str, operands: str, name: str, draft: _Draft) -> None:
    taken = _taken(mnemonic, operands)
    if taken is None:
        draft.is_known = False
        return
    draft.size_bytes += taken
    if not _GOES.fullmatch(mnemonic):
        return
    goes = _TARGET.search(operands)
    if goes and goes[1] != name:
        draft.calls[goes[1]] = None
    elif not goes and mnemonic in _BY_REGISTER:
        draft.is_known = False


def _taken(mnemonic: str, operands: str) -> int | None:
    """Return how many bytes an instruction takes from the stack; None = it does not say."""
    if _PUSH.fullmatch(mnemonic) and ("push" in mnemonic or operands.startswith("sp!")):
        each = 8 if _DOUBLE.search(operands) else 4
        return each * _count(operands)
    store = _STORE.match(operands)
    if store:
        return int(store[1])
    if mnemonic in {"add", "addi", "c.addi", "c.addi16sp"}:
        add = _ADD.match(operands)
        return int(add[1]) if add else 0
    if mnemonic.startswith("sub") and operands.startswith("sp,"):
        subtract = _SUBTRACT.match(operands)
        return int(subtract[1]) if subtract else None
    return 0


def _count(operands: str) -> int:
    """Count the registers of `{r4, r5, lr}` or `{d8-d11}`."""
    return sum(_registers(part) for part in _parts(operands))


def _parts(operands: str) -> Iterator[str]:
    _, _, inside = operands.partition("{")
    yield from inside.partition("}")[0].split(",")


def _registers(part: str) -> int:
    numbers = [int(number) for number in re.findall(r"[0-9]+", part)]
    return numbers[1] - numbers[0] + 1 if "-" in part else 1
