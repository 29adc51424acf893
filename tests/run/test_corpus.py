"""What must hold for real models, in the folder that DLBUILD_CORPUS names."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import Needs

ROOT = Path(__file__).parent.parent.parent
CORPUS = os.environ.get("DLBUILD_CORPUS", "")
FLOATS = [
    "mlperf_ad_toycar_f32",
    "mlperf_ic_resnet8_f32",
    "mlperf_kws_dscnn_f32",
    "mlperf_vww_mobilenetv1_f32",
]
INTEGERS = [
    "mlperf_ad_toycar_int8",
    "mlperf_ic_resnet8_int8",
    "mlperf_ic_resnet_large_int8",
    "mlperf_kws_dscnn_int8",
    "mlperf_sww_int8",
    "mlperf_vww_mobilenetv1_int8",
]
CC = "arm-none-eabi-gcc"

# Names of libgcc's routines for floats on Arm: the run-time ABI's, and gcc's own.
SOFT_FLOAT = re.compile(r"__aeabi_(c?[fd]|[iul]+2[fd])\w*|__\w*(sf|df)\w*\d?|.*(exp|round|rint)f?")


def folder_of(model: str) -> Path:
    if not CORPUS:
        pytest.skip("DLBUILD_CORPUS is not set")
    folder = Path(CORPUS) / "models" / model
    assert (folder / "model.onnx").is_file(), f"the corpus has no model '{model}'"
    return folder


def recipe(folder: Path, model: Path, target: str) -> None:
    """Write a recipe; every one of the models has fixed shapes, or a batch that is 1 by default."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(model, folder / "model.onnx")
    text = "version: 1\nmodels: {net: {source: model.onnx}}\n"
    text += f"targets: {{chip: {target}}}\nbuilds: [{{model: net, target: chip}}]\n"
    (folder / "dlbuild.yaml").write_text(text)


def dlbuild(folder: Path, *words: str, variables: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, "-m", "dlbuild", *words]
    environment = {**os.environ, **(variables or {})}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    made = folder / "build" / "dlbuild" / "chip"
    files = (path for path in sorted(made.rglob("*")) if path.is_file())
    return {path.relative_to(made).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("model", [*FLOATS, *INTEGERS])
def test_new_numbers_change_one_file_and_one_object(model: str) -> None:
    parent = folder_of(model).parent
    program = ROOT / "bench" / "incremental.py"
    command = [sys.executable, str(program), str(parent), "--only", model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["1 passed, 0 failed"], done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "model", ["examples/digits/digits_int8.onnx", "mlperf_ic_resnet8_f32", "mlperf_kws_dscnn_int8"]
)
def test_the_same_bytes_come_from_every_machine(model: str, tmp_path: Path) -> None:
    file = ROOT / model if model.endswith(".onnx") else folder_of(model) / "model.onnx"
    ways = (
        ("a", "1", {"PYTHONHASHSEED": "0", "LC_ALL": "C", "OPENBLAS_CORETYPE": "Prescott"}),
        ("b b", "2", {"PYTHONHASHSEED": "7", "LC_ALL": "C.UTF-8", "OPENBLAS_CORETYPE": "Nehalem"}),
        ("c/d/e", "2", {"PYTHONHASHSEED": "9", "OPENBLAS_CORETYPE": "Haswell", "TZ": "Asia/Tokyo"}),
    )
    made = []
    for name, jobs, variables in ways:
        recipe(tmp_path / name, file, "{extends: host}")
        dlbuild(tmp_path / name, "build", "-j", jobs, variables=variables)
        made.append(contents(tmp_path / name))
    assert "net/net.c" in made[0]
    assert "net/libnet.a" in made[0]
    for other in made[1:]:
        assert sorted(other) == sorted(made[0])
        assert [name for name in other if other[name] != made[0][name]] == []


@pytest.mark.parametrize("model", [*FLOATS, *INTEGERS])
def test_a_cross_compiler_finds_nothing_to_warn_of(
    model: str, tmp_path: Path, needs: Needs
) -> None:
    file = folder_of(model) / "model.onnx"
    needs(CC)
    recipe(tmp_path, file, "{extends: cortex-m4f}")
    dlbuild(tmp_path, "build")
    (sizes,) = json.loads(dlbuild(tmp_path, "size", "--json"))
    assert sizes["flash_bytes"] > 0
    assert sizes["arena_bytes"] > 0


@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m3"])
@pytest.mark.parametrize("model", INTEGERS)
def test_integers_call_no_soft_float_on_a_core_without_an_fpu(
    model: str, target: str, tmp_path: Path, needs: Needs
) -> None:
    file = folder_of(model) / "model.onnx"
    needs(CC)
    recipe(tmp_path, file, f"{{extends: {target}}}")
    dlbuild(tmp_path, "build")
    assert soft_floats(tmp_path, target) == []


def test_floats_do_call_soft_float_there(tmp_path: Path, needs: Needs) -> None:
    """Show that the check above can fail."""
    needs(CC)
    recipe(tmp_path, ROOT / "examples" / "digits" / "digits.onnx", "{extends: cortex-m3}")
    dlbuild(tmp_path, "build")
    assert "__aeabi_fmul" in soft_floats(tmp_path, "cortex-m3")


def soft_floats(folder: Path, target: str) -> list[str]:
    """Link a firmware that runs the model, and return the float routines in its map."""
    made = folder / "build" / "dlbuild" / "chip" / "net"
    header = (made / "net.h").read_text()
    ports = re.findall(r"/\*\* Elements of (\w+): (\w+?)\[", header)
    variables = "".join(
        f"{kind if kind == 'float' else kind + '_t'} {name}[NET_{name.upper()}_LEN];\n"
        for name, kind in ports
    )
    names = ", ".join(name for name, _ in ports)
    main = f'#include "net.h"\n{variables}int main(void) {{ return net_run({names}); }}\n'
    (folder / "main.c").write_text(main)
    core = {"cortex-m0plus": "-mcpu=cortex-m0plus", "cortex-m3": "-mcpu=cortex-m3"}[target]
    command = [CC, core, "-mthumb", "-O2", "--specs=nosys.specs", "-Wl,--gc-sections"]
    command += [f"-I{made}", "main.c", str(made / "libnet.a"), "-lm", "-Wl,-Map=net.map"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    placed = (folder / "net.map").read_text().partition("Linker script and memory map")[2]
    symbols = re.findall(r"^ +0x[0-9a-f]+ +(\w+)$", placed, re.MULTILINE)
    assert "net_run" in symbols
    return sorted({name for name in symbols if SOFT_FLOAT.fullmatch(name)})
