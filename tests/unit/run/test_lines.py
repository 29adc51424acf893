import sys
from pathlib import Path

import pytest

from dlbuild.base.errors import UserError
from dlbuild.run.lines import Count, Range, Said, converse, take


def said_by(text: str) -> Said:
    said = Said()
    for line in text.splitlines():
        take(line, said)
    return said


def test_each_line_of_the_protocol_is_taken() -> None:
    said = said_by(
        "boot message\n"
        "dlb ready 1\n"
        "dlb unit cycles\n"
        "dlb data 00ff\n"
        "dlb data 7f\n"
        "dlb count 1 2500\n"
        "dlb count 2 30 1\n"
        "dlb stack 240\n"
        "dlb wrote 0x20000000 16\n"
        "dlb done 0\n"
    )
    assert said == Said(
        content=bytearray(b"\x00\xff\x7f"),
        unit="cycles",
        counts=[Count(1, 2500), Count(2, 30, core=1)],
        stacks=[240],
        written=[Range(0x20000000, 16)],
        other=["boot message"],
        is_done=True,
    )


def test_a_line_that_asks_says_for_how_many_bytes() -> None:
    said = Said()
    assert take("dlb send 256", said) == 256
    assert take("dlb ready 1", said) == 0
    assert not said.fault


@pytest.mark.parametrize(
    "line", ["dlb ready 2", "dlb send", "dlb data 0", "dlb count 1", "dlb wrote x 1", "dlb hello"]
)
def test_a_line_that_is_not_of_the_protocol_is_a_fault(line: str) -> None:
    assert said_by(line).fault == f"it said a line that is not of the protocol: {line}"


def test_the_first_reason_is_kept() -> None:
    assert said_by("dlb fail no clock\ndlb done 3\n").fault == "no clock"


def python(text: str, work: Path) -> str:
    """Return the command of a runner that is a Python program."""
    (work / "runner.py").write_text(text)
    return f"{sys.executable} runner.py"


ECHO = """
import sys
print("dlb ready 1", flush=True)
for count in (3, 2):
    print(f"dlb send {count}", flush=True)
    print("dlb data " + sys.stdin.readline().strip(), flush=True)
print("dlb done 0")
"""


def test_a_runner_is_sent_what_it_asks_for(tmp_path: Path) -> None:
    said = converse(python(ECHO, tmp_path), tmp_path, b"\x01\x02\x03\x04\x05", "run")
    assert said.content == b"\x01\x02\x03\x04\x05"


def test_all_that_is_sent_stands_in_a_file_as_well(tmp_path: Path) -> None:
    text = """
print("dlb ready 1")
for _ in range(2000):
    print("dlb send 256")  # its answers are never read
print("dlb data " + open("input.txt").read().replace("\\n", ""))
print("dlb done 0")
"""
    sent = bytes(range(256)) * 2000
    assert converse(python(text, tmp_path), tmp_path, sent, "run").content == sent


@pytest.mark.parametrize(
    ("text", "details", "why"),
    [
        ("print('dlb fail no clock')", "", "no clock"),
        ("print('dlb done 0')\nraise SystemExit(4)", "", "the runner ended with 4"),
        ("print('hello')", "  hello\n", "it never said 'dlb done'"),
        ("print('dlb done 7')", "", "it ended with 7"),
    ],
)
def test_a_program_that_fails_is_told(tmp_path: Path, text: str, details: str, why: str) -> None:
    with pytest.raises(UserError) as caught:
        converse(python(text, tmp_path), tmp_path, b"", "run.elf")
    assert str(caught.value) == (
        "run.elf: error: the program failed on the target\n"
        f"{details}"
        f"  why: {why}\n"
        "  fix: docs/runner.md says what a runner and its program have to do"
    )


def test_a_runner_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        converse("qemu-system-riscv32-not-here x.elf", tmp_path, b"", "run.elf")
    assert str(caught.value) == (
        "error: there is no program 'qemu-system-riscv32-not-here'\n"
        "  why: the target's runner names it\n"
        "  fix: install it (Debian: apt-get install qemu-system-riscv32-not-here),"
        " or name another in 'runner'"
    )
