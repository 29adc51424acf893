"""Arena of networks computed in strips, and whether the C computes the same in it.

For each network of `strip_models.py` (and the trained ones of the corpus, if it is there), integers
with one rounding, an interface in rows of pixels (NHWC) and, where it differs, of planes (NCHW):

- the arena layer by layer and in strips, as the size of the array in the C, which also holds the
  counters of rows where these outlive a call; KB = 1000 B;
- whether outputs are equal to the bit to the run layer by layer, three inputs (one for networks of
  more than 30 million multiplications) twice each over an
  arena filled with other bytes, under the sanitizers for addresses and undefined behaviour;
- whether the arena is all that is touched: canaries before and behind it, and a page that may not
  be touched, behind it in one run and before it in the next;
- multiplications of a run over those of the model (`work`);
- instructions of a run in strips over those of a run layer by layer with the same kernels: on this
  machine (callgrind, -O2), and on an emulated Cortex-M4F. Networks of more than 30 million
  multiplications are counted on this machine with `--large` only.

A run with `input: external` computes some columns again, on purpose. What that takes is in its
instructions, so before their limit stands `repeated`: those of a run layer by layer if each of its
kernels, as it was counted there, were computed as often as the plan says, over those of the run.
Kernels differ in instructions for each multiplication, so that this is not `work`. The limit of
1.05 is for what the strips add to it.

On this machine the arena is the lowest (`optimize: ram`). On the core, whose hand-written kernels
need working memory in the arena too, a memory of the size of the limit decides: of the plans that
fit it the one of least work. Its bytes and its work are printed beside its instructions, and
where it takes slower forms of kernels, those over the run layer by layer in the fastest: the limit
is for the same forms, layer by layer too.
"""

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from memory_counts import core, kernels_on_core, kernels_on_host, on_core, on_host, plain_host
from strip_models import NETS

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import Strip, Tile, TilePlan
from dlbuild.rulebook.load import load_rules
from dlbuild.run.guard import guarded_program
from dlbuild.run.runner import Built, Values, model_program, run_model
from dlbuild.run.runner_program import Compiler, Program, compile_program
from dlbuild.stages.audit import audit
from dlbuild.stages.parse import parse
from dlbuild.stages.passes import again_macs, computed_columns
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.strips import trades
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile

SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
N_SAMPLES, N_RUNS = 3, 2

LIMITS: dict[str, tuple[float, float, float]] = {
    "mobilenet_v1_025_96": (30, 16, 10),
    "mobilenet_v2_035_144": (70, 31, 13),
    "mobilenet_v2_100_224": (210, 135, 52),
    "resnet8": (16, 13.5, 13),
    "ds_cnn": (7, 6.5, 6.5),
    "mcunet_320k_176": (102, 62, 56),
}
"""KB that the arena may have with `input: arena`, with `input: streamed`, and with
`input: external` and RECOMPUTE.
"""

RECOMPUTE = 1.3
"""Multiplications of a run with `input: external` over those of the model, at most."""

TRAINED = ("mlperf_vww_mobilenetv1_int8", "mlperf_ic_resnet8_int8", "mlperf_kws_dscnn_int8")
LARGE = 30_000_000
"""Multiplications of a network above which one sample is run, and callgrind is not unless asked."""

OVERHEAD = 1.05
"""Instructions in strips over those layer by layer, each kernel as often as planned, at most."""

COLUMNS = (
    *("model", "rows of", "input", "layers B", "strips B"),
    *("limit B", "work", "equal", "guarded", "repeated", "instructions"),
    *("m4f B", "m4f work", "m4f repeated", "m4f instructions", "over the fastest"),
)


@dataclass(frozen=True)
class Case:
    """One row of the table. limit: KB, or None."""

    name: str
    file: Path
    input: str
    is_nhwc: bool
    limit: float | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the subcommand takes."""
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--input", default="*", metavar="GLOB", help="interface modes")
    parser.add_argument("--trades", action="store_true", help="arena against work, planned only")
    parser.add_argument("--no-count", action="store_true", help="do not count instructions")
    parser.add_argument("--large", action="store_true", help="run callgrind on large networks too")
    parser.add_argument(
        "--corpus",
        type=Path,
        default=Path(os.environ.get("DLBUILD_CORPUS", "../shared"), "models"),
        help="folder of trained models (default: $DLBUILD_CORPUS/models)",
    )


def run(arguments: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    """Print a table and yield each case's name and whether it passed."""
    if arguments.trades:
        print_trades(arguments.only)
        return
    print("  ".join(COLUMNS))
    with tempfile.TemporaryDirectory(prefix="dlbuild-strips-") as folder:
        work = Path(folder)
        layered: dict[tuple[str, bool], Layered] = {}
        for case in cases(work, arguments.corpus, arguments.only):
            if not fnmatch(case.input, arguments.input):
                continue
            key = (case.name, case.is_nhwc)
            if key not in layered:
                layered[key] = layer_by_layer(case, work, arguments)
            cells, faults = measure(case, layered[key], work)
            print("  ".join([*cells, *faults]), flush=True)
            yield f"{case.name}, {cells[1]}, input: {case.input}", not faults


def print_trades(only: str) -> None:
    """Print what a smaller arena costs, with `input: external`, up to twice the multiplications."""
    book, target = load_rules([builtin_folder()]), plain_host()
    with tempfile.TemporaryDirectory(prefix="dlbuild-strips-") as folder:
        for name, net in NETS.items():
            if not fnmatch(name, only):
                continue
            file = Path(folder) / f"{name}.onnx"
            onnx.save(net().model(), file)
            graph = parse(file, {}, book, name).graph
            options = Options(
                requantize="fixed",
                input="external",
                max_recompute=2.0,
                layout=((graph.inputs[0], "nhwc"),),
            )
            kernels = profile(graph, book, target, options)
            found = trades(graph, kernels, target, options, book)
            texts = [f"{trade.need_bytes:,} B at {trade.work:.3f}" for trade in found]
            print(f"{name}: {', '.join(texts)}", flush=True)


def cases(work: Path, corpus: Path, only: str) -> Iterator[Case]:
    """Yield the rows of the table."""
    for name, net in NETS.items():
        if not fnmatch(name, only):
            continue
        file = work / f"{name}.onnx"
        onnx.save(net().model(), file)
        resident, streamed, external = LIMITS[name]
        yield Case(name, file, "arena", is_nhwc=True, limit=resident)
        yield Case(name, file, "streamed", is_nhwc=True, limit=streamed)
        yield Case(name, file, "external", is_nhwc=True, limit=external)
        yield Case(name, file, "caller", is_nhwc=True)
        yield Case(name, file, "arena", is_nhwc=False)
    for name in TRAINED:
        if fnmatch(name, only) and (corpus / name).is_dir():
            for mode in ("arena", "streamed", "caller"):
                # Their own inputs are in rows of pixels, with a Transpose behind.
                yield Case(name, corpus / name / "model.onnx", mode, is_nhwc=False)


@dataclass(frozen=True)
class Layered:
    """The run layer by layer: its arena, what it computes, how long it takes.

    here, there: instructions of each kernel on this machine and on the emulated core, none where
    they are not counted.
    """

    arena_bytes: int
    samples: Sequence[Values]
    outputs: tuple[tuple[Values, ...], ...]
    here: Mapping[str, int]
    there: Mapping[str, int]


def options_of(case: Case, optimize: Literal["speed", "ram"]) -> Options:
    """Return how a case is built."""
    chosen = Options(
        optimize=optimize,
        requantize="fixed",
        output="arena" if case.input == "streamed" else "caller",
    )
    match case.input:
        case "arena":
            return replace(chosen, input="arena")
        case "streamed":
            return replace(chosen, input="streamed")
        case "external":
            return replace(chosen, input="external", max_recompute=RECOMPUTE)
        case _:
            return chosen


def layer_by_layer(case: Case, work: Path, arguments: argparse.Namespace) -> Layered:
    """Run a network layer by layer."""
    plain = replace(case, input="arena")
    built = build(plain, options_of(plain, "speed"), work / f"{case.name}-{case.is_nhwc}-layers")
    tensor = built.graph.tensor[built.graph.inputs[0]]
    random = np.random.default_rng(1)
    macs = sum(kernel.macs for kernel in built.profile.kernels)
    is_large = macs > LARGE
    samples = [
        {tensor.name: random.integers(-128, 128, tensor.shape).astype(tensor.dtype)}
        for _ in range(1 if is_large else N_SAMPLES)
    ]
    program = compiled(built, "run", ("-O2",))
    outputs = run_model(built, program, samples, N_RUNS)
    is_counted = not arguments.no_count and (arguments.large or not is_large)
    hooked = replace(options_of(plain, "speed"), hook=True)
    here: Mapping[str, int] = {}
    there: Mapping[str, int] = {}
    if is_counted:
        here = kernels_on_host(build(plain, hooked, beside(built, "hooked")), samples[0])
    if not arguments.no_count:
        on = build(plain, hooked, beside(built, "core"), core())
        there = kernels_on_core(on, samples[0])
    return Layered(built.schedule.memories[0].height_bytes, samples, outputs, here, there)


def measure(case: Case, layered: Layered, work: Path) -> tuple[list[str], list[str]]:
    """Return the cells of a row, and what is wrong."""
    rows = "pixels" if case.is_nhwc else "planes"
    out = work / f"{case.name}-{case.is_nhwc}-{case.input}"
    try:
        built = build(case, options_of(case, "ram"), out)
    except UserError as fault:
        return [case.name, rows, case.input], [str(fault)]
    arena_bytes = array_bytes(built)
    samples = layered.samples
    outputs = run_model(built, compiled(built, "run", SANITIZED), samples, N_RUNS)
    is_equal = are_equal(outputs, layered.outputs)
    is_guarded = guarded(case, layered, out.with_name(f"{out.name}-guarded"), arena_bytes)
    layers = sum(layered.here.values())
    on_this = on_host(built, samples[:1]) / layers if layers else 0.0
    repeated = repeated_of(built, layered.here)
    work_ratio = work_of(built)
    there, core_faults = measure_on_core(case, layered, out.with_name(f"{out.name}-core"))
    faults = ["outputs differ"] if not is_equal else []
    faults += ["touches what is beside its arena"] if not is_guarded else []
    if case.limit is not None and arena_bytes > case.limit * 1000:
        faults.append(f"{arena_bytes:,} B exceed {case.limit:g} KB")
    if work_ratio > (RECOMPUTE if case.input == "external" else 1):
        faults.append(f"{work_ratio:.3f} times the multiplications")
    if on_this > OVERHEAD * repeated:
        faults.append(f"{on_this:.3f} times the instructions")
    cells = [
        *(case.name, rows, case.input),
        *(f"{layered.arena_bytes:,}", f"{arena_bytes:,}"),
        f"{case.limit * 1000:,.0f}" if case.limit is not None else "-",
        f"{work_ratio:.3f}",
        *("yes" if is_equal else "NO", "yes" if is_guarded else "NO"),
        *((f"{repeated:.3f}", f"{on_this:.3f}") if on_this else ("-", "-")),
        *there,
    ]
    return cells, [*faults, *core_faults]


def work_of(built: Built) -> float:
    """Return the multiplications of a run over those of the model."""
    macs = sum(kernel.macs for kernel in built.profile.kernels)
    return 1 + again_macs(built.profile, built.tiles) / macs


def repeated_of(built: Built, layers: Mapping[str, int]) -> float:
    """Return what repetition alone makes of the instructions of a run layer by layer, over those.

    layers: instructions of each kernel.
    """
    total = sum(layers.values())
    again = (
        layers[kernel] * (computed / columns - 1)
        for kernel, (computed, columns) in computed_columns(built.tiles).items()
    )
    return 1 + sum(again) / total if total else 1.0


def measure_on_core(case: Case, layered: Layered, out: Path) -> tuple[list[str], list[str]]:
    """Return the cells of the emulated core, and what is wrong there."""
    fastest = sum(layered.there.values())
    if not fastest:
        return ["-"] * 5, []
    built = built_in_limit(case, out)
    count, results = on_core(built, layered.samples[0])
    work, arena_bytes = work_of(built), array_bytes(built)
    alike = layered.there
    if any(tile.form for tile in built.tiles.tiles):
        # Layer by layer with the same forms of kernels.
        plain = replace(case, input="arena")
        tiles = TilePlan(
            tuple(Tile(tile.kernel, form=tile.form) for tile in built.tiles.tiles),
            strips=tuple(alone(built.tiles)),
        )
        options = replace(options_of(plain, "speed"), hook=True)
        same = build(plain, options, beside(built, "alike"), core(), tiles)
        alike = kernels_on_core(same, layered.samples[0])
    repeated, layers = repeated_of(built, alike), sum(alike.values())
    faults = []
    if not are_equal(results, [runs[:1] for runs in layered.outputs[:1]]):
        faults.append("outputs differ on the emulated core")
    if case.limit is not None and arena_bytes > case.limit * 1000:
        faults.append(f"{arena_bytes:,} B exceed {case.limit:g} KB on the emulated core")
    if count > OVERHEAD * repeated * layers:
        faults.append(f"{count / layers:.3f} times the instructions on the emulated core")
    ratios = (repeated, count / layers, count / fastest)
    return [f"{arena_bytes:,}", f"{work:.3f}", *(f"{ratio:.3f}" for ratio in ratios)], faults


def alone(tiles: TilePlan) -> Iterator[Strip]:
    """Yield each layer that goes in a slower form of its kernel by itself, row by row.

    A form that reads lines where they lie is of rows alone: as a whole, the kernel is the usual
    one.
    """
    slower = {tile.kernel for tile in tiles.tiles if tile.form}
    for strip in tiles.strips:
        for layer in strip.layers:
            if layer.kernel in slower and not layer.sums:
                yield Strip((replace(layer, room=(), passes=(), across=(), columns=""),))


def built_in_limit(case: Case, out: Path) -> Built:
    """Build for the emulated core, whose memory is as large as the limit, if there is one.

    If that is too small, as low as it goes.
    """
    target = core()
    if case.limit is None:
        return build(case, options_of(case, "ram"), out, target)
    size = int(case.limit * 1000) + (target.stack_bytes or 0)
    memories = tuple(
        replace(memory, size_bytes=size) if "arena" in memory.holds else memory
        for memory in target.memories
    )
    try:
        return build(case, options_of(case, "speed"), out, replace(target, memories=memories))
    except UserError:
        return build(case, options_of(case, "ram"), out, target)


def guarded(case: Case, layered: Layered, out: Path, arena_bytes: int) -> bool:
    """Say whether a run in an arena between forbidden pages gives the same."""
    built = build(case, replace(options_of(case, "ram"), arena="caller"), out)
    if array_bytes(built) != arena_bytes:
        return False
    for is_behind in (True, False):
        text = guarded_program(built, is_behind=is_behind)
        try:
            outputs = run_model(
                built, made(built, f"guard{is_behind}", text, ("-O2",)), layered.samples[:1], 1
            )
        except UserError:
            return False
        if not are_equal(outputs, [runs[:1] for runs in layered.outputs[:1]]):
            return False
    return True


def beside(built: Built, end: str) -> Path:
    """Return a folder beside a build's."""
    return built.folder.with_name(f"{built.folder.name}-{end}")


def array_bytes(built: Built) -> int:
    """Return the size of the arena as the C says it."""
    header = (built.folder / f"{built.name}.h").read_text()
    found = re.search(r"_ARENA_BYTES \((\d+)\)", header)
    assert found, "the header gives the size of the arena"
    return int(found[1])


def build(
    case: Case,
    options: Options,
    out: Path,
    target: Target | None = None,
    tiles: TilePlan | None = None,
) -> Built:
    """Run the stages up to the C files, the audit too, for this machine or another target.

    tiles: the plan, if it is not to be found.
    """
    book, target, name = load_rules([builtin_folder()]), target or plain_host(), "model"
    parsed = parse(case.file, {}, book, name)
    graph = parsed.graph
    if case.is_nhwc:
        options = replace(options, layout=((graph.inputs[0], "nhwc"),))
    kernels = profile(graph, book, target, options)
    tiles = tiles or tile(graph, kernels, target, options, book)
    plan = schedule(graph, kernels, tiles, target, options)
    audit(graph, kernels, tiles, plan, target, options)
    out.mkdir()
    texts = render(graph, kernels, tiles, plan, book, target, options, name)
    for file, text in texts.items():
        (out / file).write_text(text, encoding="ascii")
    binary = tables(graph, parsed.weights, kernels, book, target, options, name, tiles)
    for file, content in binary.items():
        (out / file).write_bytes(content)
    return Built(name, graph, kernels, plan, book, target, options, out, tiles)


def compiled(built: Built, name: str, flags: tuple[str, ...]) -> Program:
    """Compile the program that runs a model."""
    return made(built, name, model_program(built), flags)


def made(built: Built, name: str, text: str, flags: tuple[str, ...]) -> Program:
    """Compile a program."""
    work = built.folder / name
    work.mkdir(exist_ok=True)
    tables = built.folder / f"{built.name}_weights.c"
    return compile_program(text, "run", [tables], Compiler("gcc", flags), work)


def are_equal(
    ours: Sequence[Sequence[Mapping[str, object]]], theirs: Sequence[Sequence[Mapping[str, object]]]
) -> bool:
    """Return whether every output of every run is the same to the bit."""
    return all(
        np.array_equal(np.asarray(our[name]), np.asarray(their[name]))
        for our_runs, their_runs in zip(ours, theirs, strict=True)
        for our, their in zip(our_runs, their_runs, strict=True)
        for name in their
    )
