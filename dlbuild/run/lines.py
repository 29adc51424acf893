"""The line protocol (docs/runner.md): what a program under a runner asks for and says."""

import contextlib
import re
import shlex
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from dlbuild.base.errors import UserError
from dlbuild.run.toolchain import resolve

SECONDS = 1800
"""After so long a runner hangs."""

INPUT = "input.txt"
"""Has all that is sent, for a runner that cannot hand on its standard input."""

_SENT_BYTES = 256
_SHOWN_LINES = 20


@dataclass(frozen=True, slots=True)
class Count:
    """What was measured between a mark and the next, on one core."""

    region: int
    value: int
    core: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of the target's memory."""

    address: int
    size_bytes: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size_bytes


@dataclass
class Said:
    """What a program said.

    content: the bytes that it gave back. unit: of the counts. counts: in the order of their marks.
    stacks: bytes of stack that each run overwrote. written: what runs wrote. strangers: addresses
    in the memory of a cluster and the cores that touched them from outside. other: lines that are
    not dlbuild's.
    """

    content: bytearray = field(default_factory=bytearray)
    unit: str = "ticks"
    counts: list[Count] = field(default_factory=list)
    stacks: list[int] = field(default_factory=list)
    written: list[Range] = field(default_factory=list)
    strangers: list[tuple[int, int]] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    fault: str = ""
    is_done: bool = False


def converse(command: str, work: Path, sent: bytes, where: str) -> Said:
    """Start a runner, send what its program asks for, and return what it said.

    Args:
        command: the runner, all filled in.
        work: the folder in which it runs.
        sent: what the program reads.
        where: how an error names the program.

    Raises:
        UserError: there is no such runner, it failed or hangs, or the program said that it failed.
    """
    words = shlex.split(command)
    words = [*resolve(words[0], "runner"), *words[1:]]
    (work / INPUT).write_text(_text(sent), encoding="ascii")
    process = subprocess.Popen(
        words, cwd=work, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    clock = threading.Timer(SECONDS, process.kill)
    clock.start()
    said = Said()
    answers = _Answers(process.stdin, sent)
    try:
        for line in process.stdout:
            asked = take(line.decode("ascii", errors="replace").strip(), said)
            if asked:
                answers.send(asked)
        status = process.wait()
    finally:
        is_late = not clock.is_alive()
        clock.cancel()
        process.kill()
        process.wait()
        answers.close()
        process.stdout.close()
    _require_success(said, status, where, is_late=is_late)
    return said


def _text(sent: bytes) -> str:
    digits = sent.hex()
    lines = [digits[at : at + 2 * _SENT_BYTES] for at in range(0, len(digits), 2 * _SENT_BYTES)]
    return "".join(f"{line}\n" for line in lines)


class _Answers:
    """Writes what is asked for, without waiting for a runner that reads input.txt instead."""

    def __init__(self, stream: IO[bytes], sent: bytes) -> None:
        self._stream = stream
        self._sent = sent
        self._at = 0
        self._due: list[bytes] = []
        self._ready = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def send(self, count: int) -> None:
        """Answer `dlb send count`."""
        line = self._sent[self._at : self._at + count].hex().encode() + b"\n"
        self._at += count
        with self._ready:
            self._due.append(line)
            self._ready.notify()

    def close(self) -> None:
        """End; the runner has ended, so that nothing waits for it any more."""
        with self._ready:
            self._is_closed = True
            self._ready.notify()
        self._thread.join()

    def _write(self) -> None:
        try:
            while True:
                with self._ready:
                    while not self._due and not self._is_closed:
                        self._ready.wait()
                    due, self._due = self._due, []
                if not due:
                    break
                self._stream.write(b"".join(due))
                self._stream.flush()
        except OSError:
            pass  # the runner has ended or never reads
        finally:
            _close(self._stream)


def _close(stream: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        stream.close()


_HEX = re.compile("([0-9a-f]{2})*")
_NUMBERS = re.compile(r"(0x[0-9a-f]+|[0-9]+)( (0x[0-9a-f]+|[0-9]+))*")


def take(line: str, said: Said) -> int:
    """Read one line, without its end; return how many bytes it asks for."""
    start, _, rest = line.partition(" ")
    word, _, text = rest.partition(" ")
    if start != "dlb":
        said.other.append(line)
        return 0
    numbers = [_number(n) for n in text.split()] if _NUMBERS.fullmatch(text) else []
    if word == "send" and numbers and numbers[0] > 0:
        return numbers[0]
    if not (_note(word, numbers, said) or _say(word, text, said)):
        said.fault = said.fault or f"it said a line that is not of the protocol: {line[:60]}"
    return 0


def _number(text: str) -> int:
    return int(text, 16 if text.startswith("0x") else 10)


def _note(word: str, numbers: Sequence[int], said: Said) -> bool:
    """Take a line of numbers; return whether it is one."""
    match word, numbers:
        case "ready", [1]:
            pass
        case "count", [region, value, *core]:
            said.counts.append(Count(region, value, *core[:1]))
        case "stack", [size_bytes]:
            said.stacks.append(size_bytes)
        case "wrote", [address, size_bytes]:
            said.written.append(Range(address, size_bytes))
        case "stranger", [address, core]:
            said.strangers.append((address, core))
        case "done", [status]:
            said.is_done = status == 0
            said.fault = said.fault or (f"it ended with {status}" if status else "")
        case _:
            return False
    return True


def _say(word: str, text: str, said: Said) -> bool:
    """Take a line of text; return whether it is one."""
    match word:
        case "unit":
            said.unit = text
        case "data" if _HEX.fullmatch(text):
            said.content += bytes.fromhex(text)
        case "fail":
            said.fault = said.fault or text or "it says no reason"
        case _:
            return False
    return True


def _require_success(said: Said, status: int, where: str, *, is_late: bool) -> None:
    if said.is_done and not said.fault and status == 0:
        return
    why = said.fault
    if not why and is_late:
        why = f"it ran longer than {SECONDS} s"
    elif not why:
        why = f"the runner ended with {status}" if said.is_done else "it never said 'dlb done'"
    raise UserError(
        "the program failed on the target",
        where=where,
        details=_last(said.other),
        why=why,
        fix="docs/runner.md says what a runner and its program have to do",
    )


def _last(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line][-_SHOWN_LINES:]
