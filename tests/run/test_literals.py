"""Tables in each form, compiled and read back bit by bit."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from dlbuild.emit.ctypes import storage
from dlbuild.emit.literals import (
    Array,
    braces,
    chunks,
    number,
    repeated,
    repeated_text,
    repeater,
    text,
)
from dlbuild.run.compile import WARNINGS

VALUES: dict[str, Array] = {
    "float32": np.array([np.inf, -np.inf, np.nan, 1e-45, -0.0, 3.4e38, 0.1], np.float32),
    "float64": np.array([np.inf, -np.inf, np.nan, 5e-324, -0.0, 1.7e308, 0.1], np.float64),
    "bool": np.array([True, False, True, True, False, True, False]),
    "int8": np.array([-128, 127, 0, -1, 5, 6, 7], np.int8),
    "uint8": np.array([0, 255, 128, 1, 5, 6, 7], np.uint8),
    "int16": np.array([-32768, 32767, 0, -1, 5, 6, 7], np.int16),
    "uint16": np.array([0, 65535, 32768, 1, 5, 6, 7], np.uint16),
    "int32": np.array([-(1 << 31), (1 << 31) - 1, 0, -1, 5, 6, 7], np.int32),
    "uint32": np.array([0, (1 << 32) - 1, 1, 2, 5, 6, 7], np.uint32),
    "int64": np.array([-(1 << 63), (1 << 63) - 1, 0, -1, 1 << 40, 6, 7], np.int64),
    "uint64": np.array([0, (1 << 64) - 1, 1, 2, 5, 6, 7], np.uint64),
}


def read_back(folder: Path, ctype: str, definition: str, expression: str, count: int) -> bytes:
    (folder / "t.c").write_text(
        "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdio.h>\n"
        f"{definition}\n"
        "int main(void)\n{\n"
        f"    return fwrite({expression}, sizeof({ctype}), {count}U, stdout) == {count}U ? 0 : 1;\n"
        "}\n"
    )
    command = ["gcc", "-std=c99", *WARNINGS, "-Werror", "t.c", "-o", "t"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return subprocess.run([folder / "t"], capture_output=True, check=True).stdout


@pytest.mark.parametrize("dtype", VALUES)
def test_numbers_in_braces_are_exact(dtype: str, tmp_path: Path) -> None:
    values, ctype = VALUES[dtype], storage(dtype)
    definition = f"static const {ctype} t[7] = {braces(values, dtype)};"

    assert read_back(tmp_path, ctype, definition, "t", 7) == values.tobytes()


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("times", [1, 1001])
def test_numbers_in_text_are_exact(dtype: str, times: int, tmp_path: Path) -> None:
    values, ctype = np.tile(VALUES[dtype], times), storage(dtype)
    shape = chunks(values.nbytes)
    definition = (
        f"static const union {{ unsigned char text[{shape.rows}][{shape.columns}];"
        f" {ctype} at[{values.size}]; }} t = {{ {text(values.tobytes())} }};"
    )

    assert read_back(tmp_path, ctype, definition, "t.at", values.size) == values.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
def test_a_repeated_number_fills_the_table(dtype: str, tmp_path: Path) -> None:
    value, ctype = VALUES[dtype][0], storage(dtype)
    filled = repeated(number(value.item(), dtype), 70_000, "X16")
    definition = f"{repeater('X16')}\nstatic const {ctype} t[70000] = {filled};"

    expected = np.full(70_000, value).tobytes()
    assert read_back(tmp_path, ctype, definition, "t", 70_000) == expected


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
@pytest.mark.parametrize("count", [513, 4095 * 3, 70_001, 1_048_583])
def test_a_repeated_text_fills_the_table(dtype: str, count: int, tmp_path: Path) -> None:
    """Also where a row ends amid an element, and where the last row is short."""
    value, ctype = VALUES[dtype][-1], storage(dtype)
    macro, filled = repeated_text(value.tobytes(), count, "X16", "ROW")
    shape = chunks(count * value.nbytes)
    definition = (
        f"{repeater('X16')}\n{macro}\n"
        f"static const union {{ unsigned char text[{shape.rows}][{shape.columns}];"
        f" {ctype} at[{count}]; }} t = {{ {filled} }};\n#undef ROW"
    )

    assert len(definition) < 600_000
    expected = np.full(count, value).tobytes()
    assert read_back(tmp_path, ctype, definition, "t.at", count) == expected
