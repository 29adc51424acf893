"""What a build costs when little or nothing changed, as ratios of CPU time.

    python bench/build.py [--rounds N] [--only GLOB]

With ninja, CMake, emx-onnx-cgen and $DLBUILD_CORPUS there, what they do is measured as well.

Each case is run N times in turn with `python -c pass` and, where it is named, `ninja` (ten times as
often, as that is short), so that all of them see the same load; the least CPU time of each (user
and system, children included) counts. A case holds if its ratio is at most the bound that stands
beside it and what it did is right: which stages ran, which files were written. dlbuild is started
by a script as uv and later pips write it; those of older pips import `re` first, and `python -m`
its own machinery, which takes as long again as to find that there is nothing to do. Ends with
`N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
RECIPE = "version: 1\nmodels: {{{models}}}\ntargets:\n  pc: {{extends: host}}\n"
PASS = [sys.executable, "-c", "pass"]
TABLES = "build/dlbuild/pc/net"
INFINITE = float("inf")
QUICK_S, MORE = 0.005, 10
"""What is compared with less CPU time than this is run so many times as often."""
NINJA = ["ninja", "-C", "build"]
CONFIGURE = ["cmake", "-G", "Ninja", "-S", ".", "-B", "build"]
OWN_NINJA = 1.2
"""What Ninja may take where it looks at model, recipe and libraries as well, starting nothing."""
NINJA_OF_CHECKOUT = 2.0
"""The same where it looks at each of the 700 files of dlbuild as well."""
BESIDE = str(Path(sys.executable).parent)
SCRIPT = "import sys\nfrom dlbuild.__main__ import main\nsys.exit(main())\n"


@dataclass
class Case:
    """A command with a bound, which is infinite if only what the command does counts.

    before: what is done to the folder before each run, not measured. says: what has to be in the
    output. against: what the ratio is to. beside: a command whose time is not dlbuild's, run in the
    folder after each build and taken off. command: what is measured, if it is not a build.
    """

    bound: float
    folder: Path
    before: Callable[[int], None]
    says: Callable[[str], bool]
    against: str = "python"
    beside: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reference:
    """What a case is compared with: a command, run in a folder."""

    command: list[str]
    folder: Path


def build_command(work: Path) -> list[str]:
    """Write the script that starts dlbuild and return the command of a build."""
    script = work / "dlbuild"
    script.write_text(SCRIPT)
    return [sys.executable, str(script), "build", "-j1"]


def dense(bytes_: int, seed: int) -> bytes:
    """Return a network whose int8 weights take about so many bytes, quantised as exporters do."""
    n = 256
    k = bytes_ // n
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.integers(-127, 128, (k, n)).astype(np.int8),
        "xs": np.float32(0.05),
        "ws": np.float32(0.01),
        "ys": np.float32(0.5),
        "z": np.int8(0),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "z"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["y0"]),
        helper.make_node("QuantizeLinear", ["y0", "ys", "z"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "ys", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, n])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def project(
    folder: Path, models: Mapping[str, bytes], *, n_files: int = 0, is_built: bool = True
) -> Path:
    """Write a project and build it once. n_files: in a pack of its own, which no stage needs."""
    folder.mkdir()
    for name, content in models.items():
        (folder / f"{name}.onnx").write_bytes(content)
    entries = ", ".join(f"{name}: {{source: {name}.onnx}}" for name in models)
    recipe = RECIPE.format(models=entries)
    if n_files:
        (folder / "pack" / "rules").mkdir(parents=True)
        (folder / "pack" / "templates").mkdir()
        for number in range(n_files):
            (folder / "pack" / "templates" / f"{number}.j2").write_text(str(number))
        recipe += "packs: [pack]\n"
    (folder / "dlbuild.yaml").write_text(recipe)
    if not is_built:
        return folder
    time.sleep(0.1)  # an input as young as the build leaves no snapshot
    done = run(build_command(folder.parent), folder)
    assert done[1] == 0, done[2]
    return folder


def ninja_project(folder: Path, steps: int) -> Path:
    """Write a graph of as many steps as dlbuild has files, and run it once."""
    folder.mkdir()
    lines = ["rule copy", "  command = cp $in $out"]
    for number in range(steps):
        (folder / f"in{number}").write_text(str(number))
        lines.append(f"build out{number}: copy in{number}")
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    assert run(["ninja"], folder)[1] == 0
    return folder


def run(command: list[str], folder: Path, at: Path = ROOT) -> tuple[float, int, str]:
    """Return CPU seconds, exit status and output of a command. at: where dlbuild lies."""
    then = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": str(at),
            "DLBUILD_CACHE_DIR": str(folder / "cache"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = now.ru_utime + now.ru_stime - then.ru_utime - then.ru_stime
    return cpu_s, done.returncode, done.stdout


def ran(text: str) -> set[str]:
    """Return the stages that were run."""
    return {
        line.partition(": ")[2].rpartition(" (")[0]
        for line in text.splitlines()
        if line.endswith(" s)")
    }


def is_idle(text: str) -> bool:
    """Say whether a build found nothing to do."""
    return text == "nothing to do\n"


def references(work: Path) -> dict[str, Reference]:
    """Make what is measured beside dlbuild, as far as it is installed."""
    found = {"python": Reference(PASS, work)}
    if shutil.which("ninja"):
        found["ninja"] = Reference(["ninja"], ninja_project(work / "ninja", 100))
    return found


def cases(work: Path) -> dict[str, Case]:
    """Make the projects and return the cases."""
    digits = (ROOT / "examples" / "digits" / "digits.onnx").read_bytes()
    small = project(work / "small", {f"m{number}": digits for number in range(2)})
    many = project(work / "many", {"m": digits}, n_files=1000)
    large = project(work / "large", {f"m{number}": dense(2**22, number) for number in range(4)})
    remark = project(work / "remark", {"m": digits})
    warm = project(work / "warm", {"m": digits})
    touched: dict[str, int] = {}

    def touch(_: int) -> None:
        touched.update(times(large))
        for path in large.glob("*.onnx"):
            os.utime(path)

    def edit(turn: int) -> None:
        path = remark / "dlbuild.yaml"
        text = path.read_text()
        path.write_text(f"# remark {turn}\n{text[text.index('version') :]}")

    return {
        "nothing to do": Case(2.2, small, lambda _: None, is_idle),
        "nothing to do, to ninja": Case(7, small, lambda _: None, is_idle, "ninja"),
        "nothing to do, 1,000 files": Case(3, many, lambda _: None, is_idle),
        "inputs of 16 MB touched": Case(
            5, large, touch, lambda text: is_idle(text) and times(large) == touched
        ),
        "a remark in the recipe": Case(INFINITE, remark, edit, is_idle),
        "new weights, 1 MB of int8": _retrained(work),
        "build folder removed, cache warm": Case(
            12, warm, lambda _: shutil.rmtree(warm / "build"), lambda text: not ran(text)
        ),
    }


def _retrained(work: Path) -> Case:
    """Return the case of a model with other weights: one C file and one object are made."""
    folder = project(work / "retrained", {"net": dense(2**20, 0)})
    then: dict[str, int] = {}

    def retrain(turn: int) -> None:
        (folder / "net.onnx").write_bytes(dense(2**20, turn + 1))
        then.update(times(folder))
        time.sleep(0.1)  # as in `project`

    def is_right(text: str) -> bool:
        now = times(folder)
        made = {name for name in now if now[name] != then[name]}
        stages = {"parse", "tables", "compile tables", "size", "archive"}
        return made == {"net_weights.c", "net_weights.o", "libnet.a"} and ran(text) == stages

    compiler = ("cc", "-std=c99", "-O2", "-c", "-o", "tables.o", f"{TABLES}/net_weights.c")
    return Case(40, folder, retrain, is_right, beside=compiler)


def times(folder: Path) -> dict[str, int]:
    """Return when each file that a build makes was written, by its name."""
    made = (folder / "build" / "dlbuild" / "pc").rglob("*.*")
    return {path.name: path.stat().st_mtime_ns for path in made if path.is_file()}


PLAIN = """\
cmake_minimum_required(VERSION 3.20)
project(firmware C)
file(GLOB SOURCES *.c)
add_executable(firmware ${SOURCES})
target_link_libraries(firmware PRIVATE m)
"""


def outer_cases(work: Path, found: dict[str, Reference]) -> dict[str, Case]:
    """Return the case of a build around dlbuild's, beside one of the same C without dlbuild."""
    if not (shutil.which("cmake") and shutil.which("ninja")):
        return {}
    site, plain = work / "site", work / "plain"
    install(site)
    around = {
        "nothing to do in a CMake project": (OWN_NINJA, site),
        "the same, dlbuild a checkout": (NINJA_OF_CHECKOUT, ROOT),
    }
    folders = {
        name: around_ours(work / f"around{number}", at)
        for number, (name, (_, at)) in enumerate(around.items())
    }
    plain.mkdir()
    folder = folders["nothing to do in a CMake project"]
    made = [path for path in (folder / "build").rglob("*.[ch]") if "CMakeFiles" not in path.parts]
    for path in (folder.parent / "main.c", *made):
        shutil.copy(path, plain)
    (plain / "CMakeLists.txt").write_text(PLAIN)
    for command in (CONFIGURE, NINJA, NINJA):
        done = run(command, plain)
        assert done[1] == 0, done[2]
    found["ninja without dlbuild"] = Reference(NINJA, plain)
    return {
        name: Case(
            bound,
            folders[name],
            lambda _: None,
            lambda text: text.endswith("ninja: no work to do.\n"),
            "ninja without dlbuild",
            command=tuple(NINJA),
        )
        for name, (bound, _) in around.items()
    }


def install(site: Path) -> None:
    """Put what a wheel of dlbuild has into a folder, with the list of its files."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included: dict[str, str] = wheel["targets"]["wheel"]["force-include"]
    for source, place in ({"dlbuild": "dlbuild"} | included).items():
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / source, site / place, ignore=unwanted)
    files = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.*"))]
    (site / "dlbuild-0.1.0.dist-info").mkdir()
    (site / "dlbuild-0.1.0.dist-info" / "RECORD").write_text("\n".join(files))


def around_ours(place: Path, at: Path) -> Path:
    """Build the example of CMake with the dlbuild that lies `at`, and return its folder."""
    for name in ("embed", "digits"):
        shutil.copytree(ROOT / "examples" / name, place / "examples" / name)
    folder = place / "examples" / "embed" / "cmake"
    package = next(one for one in at.rglob("dlbuild-config.cmake")).parent
    ours = [f"-DDLBUILD_PYTHON={sys.executable}", f"-Ddlbuild_DIR={package}"]
    for command in ([*CONFIGURE, *ours], NINJA, NINJA):
        done = run(command, folder, at)
        assert done[1] == 0, done[2]
    return folder


def rival_cases(work: Path, found: dict[str, Reference]) -> dict[str, Case]:
    """Return the cases that another generator is measured by, if it and the corpus are there."""
    rival = shutil.which("emx-onnx-cgen", path=os.pathsep.join((BESIDE, os.environ["PATH"])))
    corpus = os.environ.get("DLBUILD_CORPUS")
    if rival is None or corpus is None:
        return {}
    made = {}
    for kind in ("f32", "int8"):
        source = Path(corpus, "models", f"mlperf_vww_mobilenetv1_{kind}", "model.onnx")
        folder = project(work / kind, {"net": source.read_bytes()}, is_built=False)
        command = [rival, "compile", "net.onnx", "rival.c"]
        found[f"emx-onnx-cgen, {kind}"] = Reference(command, folder)

        def clear(_: int, folder: Path = folder) -> None:
            for name in ("build", "cache"):
                shutil.rmtree(folder / name, ignore_errors=True)

        made[f"C of MobileNetV1, {kind}, nothing known"] = Case(
            0.5,
            folder,
            clear,
            lambda text: "render" in ran(text),
            f"emx-onnx-cgen, {kind}",
            command=(*build_command(work), "--sources"),
        )
    return made


def measured(case: Case, reference: Reference, work: Path, rounds: int) -> tuple[float, float, str]:
    """Return the least CPU seconds of a case and of what it is compared with, and what is wrong."""
    best, other, fault = INFINITE, INFINITE, ""
    quick = run(reference.command, reference.folder)[0] < QUICK_S
    for turn in range(rounds * (MORE if quick else 1)):
        other = min(other, run(reference.command, reference.folder)[0])
        case.before(turn)
        cpu_s, status, text = run(list(case.command) or build_command(work), case.folder)
        if case.beside:
            cpu_s -= run(list(case.beside), case.folder)[0]
        best = min(best, cpu_s)
        if status or not case.says(text):
            fault = f"did otherwise: {text}"
    return best, other, fault


def main() -> int:
    """Measure and print a line for each case."""
    parser = argparse.ArgumentParser(description="Measure builds of which little changed.")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", default="*", metavar="GLOB")
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="dlbuild-speed-"))
    n_failed = 0
    try:
        beside = references(work)
        known = {**cases(work), **outer_cases(work, beside), **rival_cases(work, beside)}
        chosen = {n: c for n, c in known.items() if fnmatch(n, given.only) and c.against in beside}
        for name, case in chosen.items():
            cpu_s, other_s, fault = measured(case, beside[case.against], work, given.rounds)
            ratio = cpu_s / other_s
            if ratio > case.bound:
                fault = fault or "too slow"
            n_failed += bool(fault)
            shown = f"{cpu_s * 1e3:.0f} ms, {ratio:.2f} of {case.against}"
            print(f"{name}: {shown} (bound {case.bound:g}): {fault or 'ok'}", flush=True)
    finally:
        shutil.rmtree(work)
    print(f"{len(chosen) - n_failed} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
