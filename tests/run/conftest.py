"""Kernels compiled to a library and called through ctypes."""

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from dlbuild.base.paths import builtin_folder
from dlbuild.cli import main
from dlbuild.emit.environment import environment
from dlbuild.emit.helpers import helper_text, helpers_of
from dlbuild.emit.kernel import KernelText
from dlbuild.ir.weights import Array
from dlbuild.rulebook.instance import Instance
from tests.conftest import Needs

ENVIRONMENT = environment([Path(__file__).parents[2] / "templates"])
WARNINGS = (
    "all extra pedantic conversion sign-conversion shadow cast-qual strict-prototypes "
    "missing-prototypes undef double-promotion error"
)
HEADER = "".join(f"#include <{name}.h>\n" for name in ("math", "stdbool", "stdint", "string"))
CTYPES = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "bool": ctypes.c_bool,
    **{f"int{n}_t": getattr(ctypes, f"c_int{n}") for n in (8, 16, 32, 64)},
    **{f"uint{n}_t": getattr(ctypes, f"c_uint{n}") for n in (8, 16, 32, 64)},
}

Orders = Mapping[str, tuple[int, ...]]
Printed = tuple[KernelText, Instance, Mapping[str, Array], Orders]
"""A kernel, what it was printed from, the numbers of its inputs, and their layouts."""

Source = Callable[[Sequence[KernelText]], str]
Compile = Callable[[Path, str, Sequence[str]], None]
Verifies = Callable[[onnx.ModelProto], None]
Formatted = Callable[[Path], str]
Calls = Callable[..., list[dict[str, Array]]]


def functions_of(helpers: Iterable[str]) -> list[str]:
    """Return the helpers that are functions, not types or macros."""
    head = re.compile(r"^(static inline|SUMMING) ", re.MULTILINE)
    return [name for name in helpers if head.search(helper_text(ENVIRONMENT, name))]


@pytest.fixture(scope="session")
def source() -> Source:
    """Return one file of C for several kernels, with their comments and helpers."""

    def joined(texts: Sequence[KernelText]) -> str:
        helpers = helpers_of(ENVIRONMENT, [t.text for t in texts])
        kernels = [f"{t.comment}\n{t.text}" for t in texts]
        return "\n".join([HEADER, *(helper_text(ENVIRONMENT, h) for h in helpers), *kernels])

    return joined


_TYPE = r"(?:u?int\d+_t|float|double|bool|void)"
_NEEDLESS = re.compile(
    r"\b1 \* |[\w)\]] \* 1\b(?![.0-9])|\w \+ 0\b(?![.x])"  # what changes nothing
    rf"|\(\((?!{_TYPE})\w+\) [%*/+-]|\(\([^()]*\)\)[ ;,\]]"  # parentheses around a name, or twice
    r"|= \([^()]*\);|\[\([^()]*\)\]"  # and around all that there is
)
_FUNCTION = re.compile(r"^\w[^;{]*\)\n\{\n(.*?)^\}", re.DOTALL | re.MULTILINE)


def needless(code: str) -> list[str]:
    """Return the lines of kernels that say more than is needed, and sizes that nothing reads."""
    found = [line for line in code.splitlines() if _NEEDLESS.search(line)]
    for body in _FUNCTION.findall(code):
        names = re.findall(r"(\w+) = ", "".join(re.findall(r"enum \{ (.*?) \};", body)))
        found += [f"enum {n}" for n in names if len(re.findall(rf"\b{n}\b", body)) == 1]
    return found


@pytest.fixture(scope="session")
def compile_strictly(needs: Needs) -> Compile:
    """Compile a text in a folder by a command that ends in its outputs; no warning may come."""

    def compiled(folder: Path, code: str, command: Sequence[str]) -> None:
        needs(command[0])
        (folder / "kernels.c").write_text(code, encoding="ascii")
        flags = ["-std=c99", *(f"-W{word}" for word in WARNINGS.split())]
        compiler, *rest = command
        done = subprocess.run(
            [compiler, *flags, "kernels.c", *rest],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.stderr
        assert done.returncode == 0

    return compiled


@pytest.fixture(scope="session")
def formatted() -> Formatted:
    """Return the text of a file of C as clang-format lays it out."""
    tool = str(Path(sys.executable).with_name("clang-format"))
    style = f"--style=file:{builtin_folder() / '.clang-format'}"

    def laid_out(file: Path) -> str:
        command = [tool, style, file.name]
        folder = file.parent
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout

    return laid_out


@pytest.fixture
def verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Verifies:
    """Build a model for this machine; its C must compute what ONNX Runtime computes."""

    def verified(model: onnx.ModelProto) -> None:
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        (tmp_path / "dlbuild.yaml").write_text("version: 1\nmodels: {m: {source: m.onnx}}\n")
        monkeypatch.chdir(tmp_path)
        code = main.run(("verify",))
        out = capsys.readouterr().out
        assert code == 0, out
        assert "against ONNX Runtime" in out

    return verified


@pytest.fixture(scope="session")
def call_in_c(
    tmp_path_factory: pytest.TempPathFactory, source: Source, compile_strictly: Compile
) -> Calls:
    """Compile kernels into one library, call each, and return its outputs by operand name."""

    def called(
        kernels: Sequence[Printed], flags: Sequence[str] = ("-O1",)
    ) -> list[dict[str, Array]]:
        folder = tmp_path_factory.mktemp("kernels")
        code = _with_external_names(source([text for text, *_ in kernels]))
        trap = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
        command = ["gcc", *flags, *trap, "-fPIC", "-shared", "-o", "kernels.so", "-lm"]
        compile_strictly(folder, code, command)
        library = ctypes.CDLL(str(folder / "kernels.so"))
        return [_called(library, *kernel) for kernel in kernels]

    return called


def _with_external_names(code: str) -> str:
    """Return the code with kernels that other files can call."""
    heads = re.findall(r"^static (void [^;{]*\))\n\{", code, re.MULTILINE)
    prototypes = "".join(f"{head};\n" for head in heads)
    public = re.sub(r"^static void ", "void ", code, flags=re.MULTILINE)
    return public.replace(HEADER, HEADER + prototypes, 1)


def _called(
    library: ctypes.CDLL,
    text: KernelText,
    instance: Instance,
    arrays: Mapping[str, Array],
    orders: Orders,
) -> dict[str, Array]:
    """Call a kernel with each tensor in its layout; outputs begin with numbers of no meaning."""
    memory: dict[str, Array] = {}
    arguments: list[object] = []
    for parameter in text.parameters:
        operand = instance.operand(parameter.operand)
        given = arrays.get(operand.name)
        array = np.full(operand.shape, 85, operand.dtype) if given is None else given
        if parameter.by_value:
            arguments.append(CTYPES[parameter.ctype](array.reshape(-1)[0].item()))
            continue
        order = orders.get(operand.name, tuple(range(array.ndim)))
        memory[operand.name] = np.array(np.transpose(array, order), order="C", copy=True)
        arguments.append(ctypes.c_void_p(memory[operand.name].ctypes.data))
    arguments += [ctypes.c_int32(int(arrays[given])) for given in text.given]
    name = re.findall(r"static void (\w+)\(", text.text)[0]
    library[name](*arguments)
    found: dict[str, Array] = {}
    for operand in instance.operands:
        if operand.role == "output":
            order = orders.get(operand.name, tuple(range(len(operand.shape))))
            content = memory.get(operand.name, np.zeros(operand.shape, operand.dtype))
            found[operand.name] = np.transpose(content, np.argsort(order))
    return found
