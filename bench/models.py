"""Build every model of a folder for this machine, and check what the C computes.

    python bench/models.py DIR [--only GLOB] [--jobs N]

DIR holds one folder for each model: model.onnx, meta.json, inputs.npz (in0, in1...), outputs.npz
(out0...), and perhaps tflite_cases.npz (case0_in0, case0_out0...). For each model:

- the four C files compile without a warning with gcc and clang;
- the arena is as small as its lower bound;
- outputs, and each kernel given the reference's inputs, are within the tolerance of their type;
  for the models of EXACT every output of every case is equal to the bit;
- three runs over an arena filled with other bytes are equal;
- the sanitizers for addresses and undefined behaviour are silent;
- other weights give the same C but for the table of the weights (`bench/retrain.py` makes them);
- other flags (-O0, -Os, -funsigned-char, -fshort-enums, -flto) change nothing that matters: not
  tried with --quick, nor of models of more than 200 million products;
- integers with one rounding (`requantize: fixed`) stay within one LSB for each kernel.

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from ast import literal_eval
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from retrain import has_weights, retrained

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.build.targets import TargetBook, read_target_files, target_files
from dlbuild.ir.codec import encode
from dlbuild.ir.graph import Graph
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Options, Target, Toolchain
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import load_rules
from dlbuild.run.compile import compile_file
from dlbuild.run.runner import Built
from dlbuild.run.samples import Sample
from dlbuild.run.size import size_of, total
from dlbuild.run.verify import Checks, Verdict, verify
from dlbuild.run.verify_compare import Comparison, Tolerance
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile

EXACT = frozenset({"mlperf_kws_dscnn_int8", "mlperf_ad_toycar_int8", "mlperf_sww_int8"})
"""Models of which LiteRT and ONNX Runtime agree to the bit, so that dlbuild has to."""

CLANG = next((c for c in ("clang", "clang-14") if shutil.which(c)), "clang")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = {
    "-O0": ("gcc", "-O0"),
    "-Os": ("gcc", "-Os"),
    "-funsigned-char": ("gcc", "-O2", "-funsigned-char"),
    "-fshort-enums": ("gcc", "-O2", "-fshort-enums"),
    "-flto": ("gcc", "-O2", "-flto"),
    "clang": (CLANG, "-O2"),
    "sanitizers": ("gcc", *SANITIZED),
}
LARGE_MACS = 200_000_000
N_CASES = 3
COLUMNS = ("arena", "bound", "ratio", "flash", "MACs")
STAGES = ("parse", "profile", "plan", "render", "compile", "verify", "flags", "retrain")


@dataclass
class Row:
    """What was found of one model. seconds: of each stage."""

    model: str
    figures: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - began

    def text(self, width: int) -> str:
        """Return the row of the table."""
        figures = [self.figures.get(name, "-").rjust(11) for name in COLUMNS]
        times = [f"{self.seconds.get(name, 0):8.2f}" for name in STAGES]
        word = "ok" if not self.faults else "FAILED"
        return " ".join([self.model.ljust(width), *figures, *times, word])


def check(folder: Path, *, is_quick: bool) -> Row:
    """Build and check the model of a folder."""
    row = Row(folder.name)
    with tempfile.TemporaryDirectory(prefix="dlbuild-bench-") as work:
        try:
            check_model(folder, Path(work), row, is_quick=is_quick)
        except UserError as fault:
            row.faults.append(str(fault))
        except Exception:  # noqa: BLE001 - a fault of ours in one model is not the end of the others
            row.faults.append(traceback.format_exc())
    return row


def check_model(folder: Path, work: Path, row: Row, *, is_quick: bool) -> None:
    """Fill a row."""
    meta = json.loads((folder / "meta.json").read_text())
    options = Options(requantize="exact")
    built, weights = build(folder, meta, options, work / "exact", row)
    note_plan(built.schedule, row)
    note_objects(built, row)
    samples = [*samples_of(folder, meta, built.graph)]
    cases = [*cases_of(folder, meta, built.graph)]
    file = folder / "model.onnx"
    with row.stage("verify"):
        limited = [*samples, *(Sample(case.inputs) for case in cases[:N_CASES])]
        note(row, "", verify(built, weights, file, limited, Checks(layers=True)))
        if folder.name in EXACT:
            if not cases:
                row.faults.append("it has no tflite_cases.npz, which the exact check needs")
            equal = Checks(tolerance=Tolerance(exact=True))
            note(row, "equal to the bit", verify(built, weights, file, [*samples, *cases], equal))
    is_large = sum(kernel.macs for kernel in built.profile.kernels) > LARGE_MACS
    with row.stage("flags"):
        for name, (compiler, *flags) in FLAGS.items():
            if name != "sanitizers" and (is_quick or is_large):
                continue
            other = replace(built, target=with_compiler(built.target, compiler))
            n_runs = 3 if name == "sanitizers" and not is_large else 1
            note(
                row,
                name,
                verify(other, weights, file, samples, Checks(flags=tuple(flags), n_runs=n_runs)),
            )
        if rounds(built.graph):
            fixed, weights = build(folder, meta, Options(requantize="fixed"), work / "fixed", row)
            note(row, "fixed", verify(fixed, weights, file, samples, Checks(layers=True)))
    with row.stage("retrain"):
        note_retrained(folder, meta, built, work, row)


def note_retrained(
    folder: Path, meta: Mapping[str, object], built: Built, work: Path, row: Row
) -> None:
    """Build the model with other weights; note what changed beside their table."""
    structural = frozenset(built.graph.value)
    made = retrained(onnx.load(str(folder / "model.onnx")), 1, scales=False, keep=structural)
    file = work / "retrained.onnx"
    file.write_bytes(made.SerializeToString())
    other = Row(row.model)
    again, _ = build_file(file, shapes_of(meta), built.options, work / "again", other)
    then, now = (
        {path.name: path.read_bytes() for path in sorted(b.folder.iterdir())}
        for b in (built, again)
    )
    changed = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    table = f"{built.name}_weights.c"
    if encode(built.graph) != encode(again.graph) or [n for n in changed if n != table]:
        row.faults.append(f"other weights change more than their table: {changed}")
    if not changed and has_weights(made, structural):
        row.faults.append("other weights change nothing")


def build(
    folder: Path, meta: Mapping[str, object], options: Options, out: Path, row: Row
) -> tuple[Built, Mapping[str, Array]]:
    """Build the model of a folder."""
    return build_file(folder / "model.onnx", shapes_of(meta), options, out, row)


def build_file(
    file: Path, shapes: Mapping[str, tuple[int, ...]], options: Options, out: Path, row: Row
) -> tuple[Built, Mapping[str, Array]]:
    """Run the stages from a model file to the C files."""
    name = "model"
    target = host()
    book = load_rules([builtin_folder()])
    with row.stage("parse"):
        parsed = parse(file, shapes, book, name)
    graph = parsed.graph
    with row.stage("profile"):
        kernels = profile(graph, book, target, options)
    with row.stage("plan"):
        tiles = tile(graph, kernels, target, options)
        plan = schedule(graph, kernels, tiles, target, options)
    with row.stage("render"):
        texts = render(graph, kernels, tiles, plan, book, target, options, name)
        binary = tables(graph, parsed.weights, kernels, book, target, options, name)
    out.mkdir()
    for path, text in texts.items():
        (out / path).write_text(text, encoding="ascii")
    for path, content in binary.items():
        (out / path).write_bytes(content)
    row.figures["MACs"] = f"{sum(kernel.macs for kernel in kernels.kernels):,}"
    return Built(name, graph, kernels, plan, book, target, options, out), parsed.weights


def host() -> Target:
    """Return the built-in target of this machine."""
    files = target_files((builtin_folder(),))
    return TargetBook({}, read_target_files(files, Path.as_posix)).resolve("host").target


def with_compiler(target: Target, compiler: str) -> Target:
    """Return the target with another C compiler."""
    tools = target.toolchain
    return replace(target, toolchain=Toolchain(compiler, tools.ar, tools.size, tools.cflags))


def shapes_of(meta: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs that have dynamic dimensions."""
    inputs = meta["inputs"]
    assert isinstance(inputs, list)
    return {i["name"]: tuple(i["shape"]) for i in inputs if i["shape"] != i["declared"]}


def rounds(graph: Graph) -> bool:
    """Return whether the model computes in small integers."""
    return any(
        graph.tensor[name].dtype in ("int8", "uint8") for op in graph.ops for name in op.outputs
    )


def note_plan(plan: Schedule, row: Row) -> None:
    """Note the arena, and whether it could be smaller."""
    height = sum(use.height_bytes for use in plan.memories)
    bound = sum(use.bound_bytes for use in plan.memories)
    row.figures |= {"arena": f"{height:,}", "bound": f"{bound:,}"}
    row.figures["ratio"] = f"{height / bound:.3f}" if bound else "-"
    if height != bound:
        row.faults.append(f"the arena is {height:,} B, its lower bound {bound:,} B")


def note_objects(built: Built, row: Row) -> None:
    """Compile with both compilers; note what gcc's objects take of the flash."""
    files = {path.name: path.read_bytes() for path in sorted(built.folder.iterdir())}
    for compiler in ("gcc", CLANG):
        with row.stage("compile"):
            target = with_compiler(built.target, compiler)
            names = [f"{built.name}.c", f"{built.name}_weights.c"]
            made = {n: compile_file(n, files, target, built.options) for n in names}
        if compiler == "gcc":
            sizes = [size_of(f"{n}.o", c.content, target) for n, c in made.items()]
            row.figures["flash"] = f"{total(sizes).flash_bytes:,}"


def note(row: Row, what: str, verdict: Verdict) -> None:
    """Note what a verdict has against the C."""
    prefix = f"{what}: " if what else ""
    if not verdict.is_repeatable:
        row.faults.append(f"{prefix}runs of one sample differ")
    for found in (*verdict.outputs, *verdict.layers):
        if not found.passed:
            row.faults.append(prefix + described(found))


def described(found: Comparison) -> str:
    """Say how far a tensor is from the reference."""
    kernel = f" of {found.kernel}" if found.kernel else ""
    return (
        f"'{found.tensor}'{kernel}: {found.n_outside} of {found.n_elements} elements beyond"
        f" {found.limit}, at most {found.max_abs:g} apart"
    )


def samples_of(folder: Path, meta: Mapping[str, object], graph: Graph) -> Iterator[Sample]:
    """Yield the sample that each model has."""
    with np.load(folder / "inputs.npz") as given, np.load(folder / "outputs.npz") as due:
        yield Sample(named(meta, graph, given, "in"), named(meta, graph, due, "out"))


def cases_of(folder: Path, meta: Mapping[str, object], graph: Graph) -> Iterator[Sample]:
    """Yield the cases of the model's TFLite original, with the outputs of LiteRT."""
    path = folder / "tflite_cases.npz"
    if path.is_file():
        with np.load(path) as file:
            for number in range(len({key.split("_")[0] for key in file.files})):
                prefix = f"case{number}_"
                yield Sample(
                    named(meta, graph, file, f"{prefix}in"),
                    named(meta, graph, file, f"{prefix}out"),
                )


def named(
    meta: Mapping[str, object], graph: Graph, file: Mapping[str, Array], prefix: str
) -> dict[str, Array]:
    """Return the arrays whose keys begin with `prefix`, by the names of their tensors."""
    entries = meta["inputs" if prefix.endswith("in") else "outputs"]
    assert isinstance(entries, list)
    return {
        entry["name"]: numbers(file[f"{prefix}{number}"]).reshape(graph.tensor[entry["name"]].shape)
        for number, entry in enumerate(entries)
        if f"{prefix}{number}" in file
    }


def numbers(array: Array) -> Array:
    """Return an array's numbers; of one of maps, written as text, their values in order."""
    if array.dtype.kind != "U":
        return array
    return np.array([[*literal_eval(str(text)).values()] for text in array], np.float32)


def main() -> int:
    """Check the models and print the table."""
    parser = argparse.ArgumentParser(description="Build and check every model of a folder.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of models")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--quick", action="store_true", help="of other flags only the sanitizers")
    arguments = parser.parse_args()
    folders = sorted(
        path.parent
        for path in arguments.folder.glob("*/model.onnx")
        if fnmatch(path.parent.name, arguments.only)
    )
    if not folders:
        print(f"{arguments.folder}: no model matches '{arguments.only}'", file=sys.stderr)
        return 1
    width = max(len(path.name) for path in folders)
    print(
        " ".join(
            ["model".ljust(width), *(c.rjust(11) for c in COLUMNS), *(s.rjust(8) for s in STAGES)]
        )
    )
    rows = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(partial(check, is_quick=arguments.quick), folders):
            print(row.text(width), flush=True)
            rows.append(row)
    for row in rows:
        for fault in row.faults:
            print(f"{row.model}: {fault}")
    failed = sum(bool(row.faults) for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
