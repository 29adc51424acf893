"""Speed on this machine, side by side with emx-onnx-cgen and ONNX Runtime, one thread each.

    pip install 'dlbuild[bench]'
    python bench/speed.py DIR [--only GLOB] [--rounds N]

DIR holds one folder for each model: model.onnx, meta.json, inputs.npz. The C of dlbuild and of
emx-onnx-cgen is compiled with the same flags (-O3 -march=native); the three run in turn, so that
all see the same load, and the least CPU time of each counts. valgrind counts the instructions of
the same C at plain -O2. Only ratios are printed: they hold where the times do not.

A row holds if dlbuild is so many times faster than the peer as FASTER says, takes at most
INSTRUCTIONS of its instructions, and its outputs are the peer's within what rounding explains.
Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import onnxruntime
import yaml
from mlperf import entry

from dlbuild.build.builder import How, build
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.recipe import read_recipe
from dlbuild.run.toolchain import identify

MODELS = {
    "ad f32": "mlperf_ad_toycar_f32",
    "ic f32": "mlperf_ic_resnet8_f32",
    "kws f32": "mlperf_kws_dscnn_f32",
    "vww f32": "mlperf_vww_mobilenetv1_f32",
    "ad int8": "mlperf_ad_toycar_int8",
    "ic int8": "mlperf_ic_resnet8_int8",
    "kws int8": "mlperf_kws_dscnn_int8",
    "vww int8": "mlperf_vww_mobilenetv1_int8",
}
NO_CNN = ("ad f32", "ad int8")
FASTER = {"f32": 5.0, "int8": 8.0}
"""How many times faster a CNN has to be than the peer's; other networks are shown."""

INSTRUCTIONS = 0.6
SECONDS = 0.02
"""The time of one measurement, about."""

NEAR = {"f32": 1e-3, "int8": 8}
"""How far outputs may differ: int8 networks round at each layer, the peer in floats."""

FAST = ("-O3", "-march=native")
PLAIN = ("-O2",)
WRAPPER = """
{declaration}
void once(const void *x, void *y) __attribute__((noinline));
void once(const void *x, void *y)
{{
    {call};
}}
void many(int n, const void *x, void *y);
void many(int n, const void *x, void *y)
{{
    for (int i = 0; i < n; ++i) {{
        once(x, y);
    }}
}}
"""
MAIN = """
#include <stdio.h>
static char x[1 << 20], y[1 << 20];
void once(const void *x, void *y) __attribute__((noinline));
int main(int count, char **words)
{
    FILE *file = fopen(words[count - 1], "rb");
    if (file == NULL || fread(x, 1, sizeof x, file) == 0) {
        return 1;
    }
    once(x, y);
    return 0;
}
"""


@dataclass(frozen=True)
class Network:
    """One model. x: its input. y: an output to be overwritten."""

    name: str
    folder: Path
    x: np.ndarray
    y: np.ndarray

    @property
    def kind(self) -> str:
        """The type it computes in."""
        return self.name.split()[1]


@dataclass(frozen=True)
class Code:
    """The C of a network. declaration, call: of the function that runs it."""

    files: tuple[Path, ...]
    declaration: str
    call: str


def main() -> int:
    """Build, run, print the table."""
    parser = argparse.ArgumentParser(description="Compare speed with emx-onnx-cgen and ORT.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--rounds", type=int, default=9, metavar="N")
    given = parser.parse_args()
    networks = [
        network(name, given.folder.resolve() / folder)
        for name, folder in MODELS.items()
        if fnmatch(name, given.only)
    ]
    print(f"{'network':<10}{'peer / ours':>13}{'ours / ORT':>12}{'instructions, ours / peer':>27}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dlbuild-speed-") as work:
        os.chdir(work)
        ours = built(networks)
        for one in networks:
            text, faults = row(one, ours[one.name], peer(one, Path(work)), given.rounds)
            print(text, "FAILED" if faults else "ok", flush=True)
            print(*(f"  {fault}\n" for fault in faults), sep="", end="")
            failed += bool(faults)
        os.chdir("/")
    print(f"{len(networks) - failed} passed, {failed} failed")
    return 1 if failed else 0


def network(name: str, folder: Path) -> Network:
    """Return a model with its first sample."""
    meta = json.loads((folder / "meta.json").read_text())
    samples = np.load(folder / "inputs.npz")
    outputs = np.load(folder / "outputs.npz")
    shape = meta["inputs"][0]["shape"]
    x = np.ascontiguousarray(samples[samples.files[0]]).reshape(-1)[: int(np.prod(shape))]
    y = outputs[outputs.files[0]]
    count = int(np.prod(meta["outputs"][0]["shape"]))
    return Network(name, folder, x.reshape(shape).copy(), np.zeros(count, y.dtype))


def built(networks: Sequence[Network]) -> dict[str, Code]:
    """Return what dlbuild makes of each network."""
    entries = {_stem(one): entry(one.folder) for one in networks}
    targets = {"pc": {"extends": "host", "requantize": "fixed"}}
    text = yaml.safe_dump({"version": 1, "models": entries, "targets": targets}, sort_keys=False)
    Path("dlbuild.yaml").write_text(text, encoding="utf-8")
    build(read_recipe(), PIPELINE, How(Path("out"), 1), identify, lambda _: None)
    found = {}
    for one in networks:
        stem = _stem(one)
        folder = Path("out", "pc", stem).resolve()
        ctype = {"f32": "float", "int8": "signed char"}[one.kind]
        found[one.name] = Code(
            (folder / f"{stem}.c", folder / f"{stem}_weights.c"),
            f"int {stem}_run(const {ctype} *x, {ctype} *y);",
            f"(void){stem}_run(x, y)",
        )
    return found


def _stem(one: Network) -> str:
    return one.name.replace(" ", "_")


def peer(one: Network, work: Path) -> Code:
    """Return what emx-onnx-cgen makes of a network, weights in the C as ours."""
    tool = shutil.which("emx-onnx-cgen", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if tool is None:
        sys.exit("bench/speed.py: emx-onnx-cgen is not installed: pip install 'dlbuild[bench]'")
    file = work / f"peer_{_stem(one)}.c"
    words = ["compile", "--large-weight-threshold", "100000000", "--model-name", "peer"]
    done = subprocess.run(
        [tool, *words, str(one.folder / "model.onnx"), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"bench/speed.py: emx-onnx-cgen refuses {one.name}: {done.stdout[-500:]}")
    head = re.search(r"^void peer\([^{]*\)", file.read_text(), re.MULTILINE)
    assert head, "the peer's function is not where it was"
    return Code((file,), f"#include <stdint.h>\n{head[0]};", "peer(x, y)")


def row(one: Network, ours: Code, theirs: Code, rounds: int) -> tuple[str, list[str]]:
    """Measure a network; return the row of the table and what does not hold."""
    runs = {
        "ours": _library(ours, f"{_stem(one)}_ours"),
        "peer": _library(theirs, f"{_stem(one)}_peer"),
        "ort": _session(one),
    }
    results = {name: run(one, 1) for name, run in runs.items()}
    turns = {name: max(1, int(SECONDS / _seconds(run, one, 3))) for name, run in runs.items()}
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            least[name] = min(least[name], _seconds(run, one, turns[name]))
    counts = [
        _instructions(one, code, f"{_stem(one)}_{n}") for n, code in enumerate((ours, theirs))
    ]
    faster, share = least["peer"] / least["ours"], counts[0] / counts[1]
    faults = []
    if one.name not in NO_CNN and faster < FASTER[one.kind]:
        faults.append(f"{faster:.2f} times as fast as the peer, {FASTER[one.kind]} is asked for")
    if share > INSTRUCTIONS:
        faults.append(f"{share:.2f} of the peer's instructions, {INSTRUCTIONS} is asked for")
    gap = np.abs(results["ours"].astype(float) - results["peer"].astype(float)).max()
    if gap > NEAR[one.kind]:
        faults.append(f"the outputs differ by {gap:g}")
    against = least["ours"] / least["ort"]
    return f"{one.name:<10}{faster:>13.2f}{against:>12.2f}{share:>27.3f}", faults


Run = Callable[[Network, int], np.ndarray]
"""Runs a network so many times and returns its output."""


def _seconds(run: Run, one: Network, turns: int) -> float:
    """Return the CPU time of one turn."""
    start = time.thread_time()
    run(one, turns)
    return (time.thread_time() - start) / turns


def _compiled(code: Code, name: str, flags: Sequence[str], more: str = "") -> Path:
    wrapper = Path(f"{name}_wrapper.c")
    wrapper.write_text(WRAPPER.format(declaration=code.declaration, call=code.call) + more)
    made = Path(name).resolve()
    warned = ("-w", "-D_DEFAULT_SOURCE")
    files = [str(file) for file in (*code.files, wrapper)]
    subprocess.run(["gcc", *flags, *warned, *files, "-o", str(made), "-lm"], check=True)
    return made


def _library(code: Code, name: str) -> Run:
    library = ctypes.CDLL(str(_compiled(code, f"{name}.so", (*FAST, "-fPIC", "-shared"))))

    def run(one: Network, turns: int) -> np.ndarray:
        y = one.y.copy()
        library.many(turns, ctypes.c_void_p(one.x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        return y

    return run


def _session(one: Network) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(one.folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    (port,) = session.get_inputs()

    def run(one: Network, turns: int) -> np.ndarray:
        for _ in range(turns):
            found = session.run(None, {port.name: one.x})
        return np.asarray(found[0]).reshape(-1)

    return run


def _instructions(one: Network, code: Code, name: str) -> int:
    """Return how many instructions a run takes at plain -O2, as callgrind counts them."""
    program = _compiled(code, f"{name}_plain", PLAIN, MAIN)
    sample = Path(f"{name}.bin")
    sample.write_bytes(one.x.tobytes())
    out = Path(f"{name}.callgrind")
    under = ["valgrind", "--tool=callgrind", "-q", "--toggle-collect=once"]
    subprocess.run(
        [*under, f"--callgrind-out-file={out}", str(program), str(sample)],
        check=True,
        capture_output=True,
    )
    found = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)
    assert found, "callgrind says no total"
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
