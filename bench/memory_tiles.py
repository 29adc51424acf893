"""Bytes that kernels move through a near memory of 4 to 64 KiB, and the time that predicts.

Three tables, of each network and each size, and what one network moves through two memories:

1. What any order of computation moves layer by layer (each byte that is touched, once, tables
   counted); how many times that the kernels move one by one, with `objective: traffic`; the same of
   the best of all cuts, by an enumeration of its own (`tile_optimum.py`), which no kernel may
   exceed; the ratio that research found by enumeration.
2. The predicted cycles in units of the computation alone, max(computation, transfer) task after
   task, with one buffer and with two for each operand that changes.
3. What the whole plan moves, in which results stay between kernels, over the bytes touched layer by
   layer.
4. Flash to SRAM to TCM: what comes from afar beside what would without the SRAM.

Each of these plans is audited, rendered, compiled and run against the honest copy engine: results
equal to those of the resident C, bytes equal to the plan's, with copies late, early and at random.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import onnx
import strip_models
from tile_execution import Execution, Network
from tile_optimum import Optimum

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.profile import Kernel
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import Tile, TilePlan, Tiling
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.spaces import space_of
from dlbuild.stages.tile import tile
from dlbuild.stages.tile_search import Near
from dlbuild.stages.tile_space import TileSpace, compulsory_bytes
from dlbuild.stages.tiling import tiling

KIB = 1024
NEAR = "near"
SIZES = (4, 8, 16, 32, 64)
OPTIONS = Options(requantize="fixed")
RESIDENT = Target("resident", cycles={"int8": 1.0})
SETUP_CYCLES, BYTES_PER_CYCLE = 40, 4.0
LIMITS = {
    "mobilenet_v1_025_96": (1.250, 1.004, 1.001, 1.000, 1.000),
    "mobilenet_v2_035_144": (1.044, 1.007, 1.001, 1.001, 1.000),
    "resnet8": (1.956, 1.298, 1.033, 1.000, 1.000),
    "ds_cnn": (1.404, 1.000, 1.000, 1.000, 1.000),
    "ae": (1.000, 1.000, 1.000, 1.000, 1.000),
    "mobilenet_v2_100_224": (1.677, 1.373, 1.137, 1.047, 1.000),
}
"""Traffic over the least, at each of SIZES, rounded to three digits, at most."""

THROUGH_TWO = "resnet8"
"""The network that runs through two memories."""

ROUNDED = 0.0005


def autoencoder() -> strip_models.Net:
    """The anomaly detector of MLPerf Tiny: 640-128x4-8-128x4-640."""
    net = strip_models.Net("ae", 640, 1, 1)
    net.nodes.append(onnx.helper.make_node("Flatten", ["input"], ["flat"], "flat"))
    net.shape["flat"] = (640, 1, 1)
    net.at = "flat"
    for count in (*[128] * 4, 8, *[128] * 4, 640):
        net.dense(count)
    return net


NETS = (
    strip_models.mobilenet_v1,
    strip_models.mobilenet_v2_small,
    strip_models.resnet8,
    strip_models.ds_cnn,
    autoencoder,
    strip_models.mobilenet_v2_large,
)


@dataclass(frozen=True)
class Subject:
    """A network.

    spaces: how each kernel may be cut. execution: runs its plans; None = they are not run.
    """

    name: str
    network: Network
    spaces: tuple[tuple[Kernel, TileSpace], ...]
    book: RuleBook
    execution: Execution | None

    @property
    def least(self) -> int:
        """Bytes that any order of computation moves layer by layer."""
        return sum(compulsory_bytes(space) for _, space in self.spaces)

    def planned(self, target: Target) -> TilePlan:
        """Return the plan of the whole network."""
        return tile(self.network.graph, self.network.profile, target, OPTIONS, self.book)

    def layers(self, near: Near) -> tuple[Tiling, ...] | None:
        """Return the best tiling of each kernel by itself, None if one does not fit."""
        found = [tiling(kernel, space, near) for kernel, space in self.spaces]
        fitting = tuple(replace(t, memory=NEAR) for t in found if t is not None)
        return fitting if len(fitting) == len(found) else None

    def run(self, plan: TilePlan, target: Target) -> str:
        """Audit and run a plan; return what is wrong, or that results and bytes are equal."""
        net = self.network
        audit_tiles(net.graph, net.profile, plan, target, OPTIONS, self.book)
        return self.execution.run(plan, target)[1] if self.execution else "equal: not run"

    def run_layers(self, tilings: Sequence[Tiling], size: int) -> str:
        """Do the same with tilings of kernels, all that they touch far away between them."""
        tiles = tuple(Tile(kernel.name) for kernel in self.network.profile.kernels)
        return self.run(TilePlan(tiles, tilings=tuple(tilings)), near_target(size))


def subject(net: strip_models.Net, book: RuleBook, folder: Path, *, is_run: bool) -> Subject:
    """Parse and profile a network."""
    path = folder / f"{net.name}.onnx"
    onnx.save(net.model(), path)
    parsed = parse(path, {}, book, net.name)
    graph = parsed.graph
    kernels = profile(graph, book, RESIDENT, OPTIONS)
    wish = wish_of(RESIDENT, OPTIONS)
    found = []
    for kernel in kernels.kernels:
        if kernel.alias is None:
            instance = instance_of(kernel, graph, book, wish)
            space = space_of(kernel, instance, graph, kernels)
            assert space is not None, f"{kernel.name} cannot be cut"
            found.append((kernel, space))
    network = Network(graph, dict(parsed.weights), kernels)
    execution = None
    if is_run:
        resident = tile(graph, kernels, RESIDENT, OPTIONS, book)
        made = folder / net.name
        execution = Execution(network, resident, RESIDENT, OPTIONS, book, made)
    return Subject(net.name, network, tuple(found), book, execution)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the subcommand takes."""
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument(
        "--sizes",
        default=",".join(map(str, SIZES)),
        metavar="KIB,KIB",
        help="sizes of the near memory",
    )
    parser.add_argument("--no-run", action="store_true", help="plan only")


def run(arguments: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    """Print the tables and yield each check's name and whether it passed."""
    book = load_rules([builtin_folder()])
    sizes = [int(size) for size in arguments.sizes.split(",")]
    is_run = not arguments.no_run
    with tempfile.TemporaryDirectory() as work:
        nets = [net for make in NETS if fnmatch((net := make()).name, arguments.only)]
        cases = [subject(net, book, Path(work), is_run=is_run) for net in nets]
        print("bytes touched, moved / touched (kernels with cut reductions), best of all, at most")
        for case in cases:
            yield from traffic(case, sizes)
        print("cycles / cycles of the computation, one buffer, two buffers")
        for case in cases:
            yield from times(case, sizes)
        print("bytes of the whole plan / bytes touched layer by layer")
        for case in cases:
            yield from wholes(case, sizes)
        for case in cases:
            if case.name == THROUGH_TWO:
                yield from through_two(case)


def traffic(case: Subject, sizes: Sequence[int]) -> Iterator[tuple[str, bool]]:
    """Print and check what a network moves layer by layer."""
    limits = dict(zip(SIZES, LIMITS[case.name], strict=True))
    optima = [Optimum(space) for _, space in case.spaces]
    for size in sizes:
        name = f"{case.name} through {size} KiB"
        found = case.layers(Near(size * KIB))
        best = [optimum.best(size * KIB) for optimum in optima]
        known = [count for count in best if count is not None]
        if found is None or len(known) < len(best):
            print(f"{name}: does not fit")
            yield name, False
            continue
        moved, least = sum(t.traffic_bytes for t in found), sum(known)
        split = sum(bool(t.reduction) for t in found)
        limit = limits.get(size, moved / case.least)
        said = case.run_layers(found, size)
        print(
            f"{case.name:22} {size:3} KiB  {case.least:12,}  {moved / case.least:.3f} ({split})"
            f"  {least / case.least:.3f}  {limit:.3f}  {said}",
            flush=True,
        )
        is_least = all(t.traffic_bytes <= b for t, b in zip(found, known, strict=True))
        yield f"{name}: no layer moves more than the best of all cuts", is_least
        yield f"{name}: within the limit", moved / case.least <= limit + ROUNDED
        yield f"{name}: runs", said.startswith("equal")


def times(case: Subject, sizes: Sequence[int]) -> Iterator[tuple[str, bool]]:
    """Print and check the predicted time: two buffers hide what one waits for."""
    compute = sum(kernel.cycles for kernel, _ in case.spaces)
    for size in sizes:
        found = [_timed(case, size, buffers) for buffers in (1, 2)]
        name = f"predicted time of {case.name} through {size} KiB"
        if any(f is None for f in found):
            print(f"{name}: does not fit")
            yield name, False
            continue
        plans = [f for f in found if f is not None]
        one, two = (sum(t.cycles for t in plan) / compute for plan in plans)
        said = [case.run_layers(plan, size) for plan in plans]
        print(f"{case.name:22} {size:3} KiB  {compute:12,}  {one:.3f}  {two:.3f}", flush=True)
        yield name, one >= two >= 1 and all(_is_bound(t) for plan in plans for t in plan)
        for buffers, text in zip(("one buffer", "two buffers"), said, strict=True):
            if not text.startswith("equal"):
                print(f"  {buffers}: {text}", flush=True)
            yield f"{name}, {buffers}: runs", text.startswith("equal")


def _is_bound(plan: Tiling) -> bool:
    """Tell whether a prediction is no less than all transfers, one after the other, take."""
    return plan.cycles >= int(plan.transfers * SETUP_CYCLES + plan.traffic_bytes / BYTES_PER_CYCLE)


def _timed(case: Subject, size: int, buffers: int) -> tuple[Tiling, ...] | None:
    """Return the fastest tiling of each kernel; None if one does not fit."""
    found = []
    for kernel, space in case.spaces:
        near = Near(
            size * KIB,
            setup_cycles=SETUP_CYCLES,
            bytes_per_cycle=BYTES_PER_CYCLE,
            cycles=kernel.cycles,
            objective="time",
            buffers=buffers,
        )
        best = tiling(kernel, space, near)
        if best is None:
            return None
        found.append(replace(best, memory=NEAR))
    return tuple(found)


def wholes(case: Subject, sizes: Sequence[int]) -> Iterator[tuple[str, bool]]:
    """Print and check what a network moves whose tensors stay between kernels."""
    for size in sizes:
        plan = case.planned(near_target(size))
        ratio = sum(t.moved_bytes for t in plan.tilings) / case.least
        said = case.run(plan, near_target(size))
        print(f"{case.name:22} {size:3} KiB  {ratio:.3f}  {said}", flush=True)
        yield f"{case.name} runs through {size} KiB", said.startswith("equal")


def through_two(case: Subject) -> Iterator[tuple[str, bool]]:
    """Print and check what comes from afar through an SRAM, and without it."""
    tcm, sram = (Memory(n, k * KIB, holds=("tiles",)) for n, k in (("tcm", 4), ("sram", 64)))
    rest = (Memory("external", holds=("arena",)), Memory("flash", holds=("weights",)))
    one = replace(near_target(4), memories=(tcm, *rest))
    two = replace(one, memories=(tcm, sram, *rest))
    plan = case.planned(two)
    before = sum(tiling.traffic_bytes for tiling in case.planned(one).tilings)
    after = sum(tiling.levels[-1].traffic_bytes for tiling in plan.tilings)
    n_cut = sum(tiling.outer is not None for tiling in plan.tilings)
    said = case.run(plan, two)
    print(
        f"{case.name}: from afar {before:,} B to a TCM of 4 KiB, {after:,} B through an SRAM of"
        f" 64 KiB ({n_cut} kernels cut again)  {said}",
        flush=True,
    )
    yield "flash to SRAM to TCM", n_cut > 0 and after < before and said.startswith("equal")


def near_target(size: int) -> Target:
    """Return a target with a near memory of so many KiB."""
    near = Memory(NEAR, size * KIB, holds=("tiles",))
    return Target("near", (near, Memory("far", holds=("arena",))), cycles={"int8": 1.0})
