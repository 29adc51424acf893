"""Bytes that kernels move through a near memory of 4 to 64 KiB, and the time that predicts.

For each network: what any order of computation moves layer by layer (each byte that is touched,
once, tables counted), and how many times that its kernels move one by one, with `objective:
traffic`, beside the ratio that research found by enumeration. Then the predicted cycles in units of
the computation alone, with one buffer and with two for each operand that changes. Then each plan,
in which results stay between kernels, is rendered, compiled and run against the honest copy engine:
results equal to those of the resident C, bytes equal to the plan's, with copies late, early and at
random; printed are these bytes over those touched layer by layer. At last one network through two
memories, flash to SRAM to TCM: what comes from afar beside what would without the SRAM, executed.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import onnx
import strip_models

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.ir.weights import Array
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.spaces import space_of
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile
from dlbuild.stages.tile_search import Near, search
from dlbuild.stages.tile_space import TileSpace, compulsory_bytes
from dlbuild.stages.tiling import tiling

KIB = 1024
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
PORT = builtin_folder() / "templates" / "port"


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
    """A network, profiled. spaces: how each kernel may be cut."""

    name: str
    graph: Graph
    weights: dict[str, Array]
    profile: Profile
    spaces: tuple[tuple[Kernel, TileSpace], ...]


def subject(net: strip_models.Net, book: RuleBook, folder: Path) -> Subject:
    """Parse and profile a network."""
    path = folder / f"{net.name}.onnx"
    onnx.save(net.model(), path)
    parsed = parse(path, {}, book, net.name)
    kernels = profile(parsed.graph, book, RESIDENT, OPTIONS)
    wish = wish_of(RESIDENT, OPTIONS)
    found = []
    for kernel in kernels.kernels:
        if kernel.alias is None:
            instance = instance_of(kernel, parsed.graph, book, wish)
            space = space_of(kernel, instance, parsed.graph, kernels)
            assert space is not None, f"{kernel.name} cannot be cut"
            found.append((kernel, space))
    return Subject(net.name, parsed.graph, dict(parsed.weights), kernels, tuple(found))


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
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        nets = [net for make in NETS if fnmatch((net := make()).name, arguments.only)]
        cases = [subject(net, book, folder) for net in nets]
        print("bytes moved / bytes touched (kernels with cut reductions), at most")
        for case in cases:
            yield from traffic(case, sizes)
        print("cycles / cycles of the computation, one buffer, two buffers")
        for case in cases:
            yield from times(case, sizes)
        print("bytes of the whole plan / bytes touched layer by layer, executed")
        for case in cases if not arguments.no_run else ():
            least = sum(compulsory_bytes(space) for _, space in case.spaces)
            for size in sizes:
                plan = planned(case, near_target(size), book)
                moved, said = executed(case, plan, near_target(size), book, folder)
                ratio = moved / least
                print(f"{case.name:22} {size:3} KiB  {ratio:.3f}  {said}", flush=True)
                yield f"{case.name} runs through {size} KiB", said.startswith("equal")
        for case in cases if not arguments.no_run else ():
            if case.name == THROUGH_TWO:
                yield from through_two(case, book, folder)


def through_two(case: Subject, book: RuleBook, folder: Path) -> Iterator[tuple[str, bool]]:
    """Print and check what comes from afar through an SRAM, and without it."""
    tcm, sram = (Memory(n, k * KIB, holds=("tiles",)) for n, k in (("tcm", 4), ("sram", 64)))
    rest = (Memory("external", holds=("arena",)), Memory("flash", holds=("weights",)))
    one = replace(near_target(4), memories=(tcm, *rest))
    two = replace(one, memories=(tcm, sram, *rest))
    direct = planned(case, one, book)
    plan = planned(case, two, book)
    before = sum(tiling.traffic_bytes for tiling in direct.tilings)
    after = sum(tiling.levels[-1].traffic_bytes for tiling in plan.tilings)
    n_cut = sum(tiling.outer is not None for tiling in plan.tilings)
    _, said = executed(case, plan, two, book, folder)
    print(
        f"{case.name}: from afar {before:,} B to a TCM of 4 KiB, {after:,} B through an SRAM of"
        f" 64 KiB ({n_cut} kernels cut again)  {said}",
        flush=True,
    )
    yield "flash to SRAM to TCM", n_cut > 0 and after < before and said.startswith("equal")


def traffic(case: Subject, sizes: list[int]) -> Iterator[tuple[str, bool]]:
    """Print and check what a network moves."""
    least = sum(compulsory_bytes(space) for _, space in case.spaces)
    limits = dict(zip(SIZES, LIMITS[case.name], strict=True))
    for size in sizes:
        found = [search(space, Near(size * KIB)) for _, space in case.spaces]
        ratio = sum(choice.traffic_bytes for choice in found if choice) / least
        split = sum(
            _is_split(space, choice) for (_, space), choice in zip(case.spaces, found, strict=True)
        )
        limit = limits.get(size, ratio)
        fits = all(found)
        text = f"{ratio:.3f} ({split})" if fits else "does not fit"
        print(f"{case.name:22} {size:3} KiB  {least:12,}  {text:16} {limit:.3f}", flush=True)
        yield f"{case.name} through {size} KiB", fits and ratio <= limit + ROUNDED


def _is_split(space: TileSpace, choice: object) -> bool:
    loops = dict(getattr(choice, "loops", ()))
    return any(axis in loops for axis in space.axes[len(space.axes) - space.reduce :])


def times(case: Subject, sizes: list[int]) -> Iterator[tuple[str, bool]]:
    """Print and check the predicted time: two buffers hide what one waits for."""
    compute = sum(kernel.cycles for kernel, _ in case.spaces)
    for size in sizes:
        cycles = [_cycles(case, size, buffers) for buffers in (1, 2)]
        one, two = (None if c is None else c / compute for c in cycles)
        text = "  ".join("does not fit" if c is None else f"{c:.3f}" for c in (one, two))
        print(f"{case.name:22} {size:3} KiB  {compute:12,}  {text}", flush=True)
        is_right = one is not None and two is not None and one >= two >= 1
        yield f"predicted time of {case.name} through {size} KiB", is_right


def _cycles(case: Subject, size: int, buffers: int) -> float | None:
    """Return the predicted cycles of a network; None if a kernel does not fit."""
    total = 0.0
    for kernel, space in case.spaces:
        near = Near(
            size * KIB,
            setup_cycles=SETUP_CYCLES,
            bytes_per_cycle=BYTES_PER_CYCLE,
            cycles=kernel.cycles,
            objective="time",
            buffers=buffers,
        )
        found = tiling(kernel, space, near)
        if found is None:
            return None
        total += found.cycles
    return total


def near_target(size: int) -> Target:
    """Return a target with a near memory of so many KiB."""
    near = Memory("near", size * KIB, holds=("tiles",))
    return Target("near", (near, Memory("far", holds=("arena",))), cycles={"int8": 1.0})


def planned(case: Subject, target: Target, book: RuleBook) -> TilePlan:
    """Return the plan of a network, audited."""
    plan = tile(case.graph, case.profile, target, OPTIONS, book)
    audit_tiles(case.graph, case.profile, plan, target, OPTIONS, book)
    return plan


def executed(
    case: Subject, plan: TilePlan, target: Target, book: RuleBook, folder: Path
) -> tuple[int, str]:
    """Return the bytes that a plan moves, and what a run against the honest engine says."""
    traffic = sum(tiling.moved_bytes for tiling in plan.tilings)
    write(case, plan, target, book, folder, "t")
    write(case, planned(case, RESIDENT, book), RESIDENT, book, folder, "u")
    (folder / "main.c").write_text(program(case, traffic))
    files = [f"{name}.c" for name in ("main", "t", "t_weights", "u", "u_weights")]
    port = [f"-I{PORT}", str(PORT / "dlb_port_honest.c")]
    command = ["gcc", "-std=c99", "-O2", *files, *port, "-lm", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./program"], cwd=folder, check=False, capture_output=True, text=True)
    return traffic, (done.stdout + done.stderr).strip()


def write(  # noqa: PLR0913, PLR0917 - what a rendering is made of
    case: Subject, plan: TilePlan, target: Target, book: RuleBook, folder: Path, side: str
) -> None:
    """Write the C files of one side."""
    order = schedule(case.graph, case.profile, plan, target, OPTIONS)
    texts = render(case.graph, case.profile, plan, order, book, target, OPTIONS, side)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="ascii")
    given = (case.graph, case.weights, case.profile, book, target, OPTIONS, side)
    for file, content in tables(*given).items():
        (folder / file).write_bytes(content)


def program(case: Subject, traffic: int) -> str:
    """Return a program that compares both sides, copying late, early and at random."""
    (source,), (result,) = case.graph.inputs, case.graph.outputs
    count, size = case.graph.tensor[source].count, case.graph.tensor[result].count
    return f"""\
#include "t.h"
#include "u.h"
#include "dlb_port_honest.h"
#include <stdio.h>
#include <string.h>
static int8_t x[{count}], t[{size}], u[{size}];
int main(void)
{{
    unsigned seed = 3;
    for (int i = 0; i < {count}; ++i) {{
        seed = (seed * 1664525u) + 1013904223u;
        x[i] = (int8_t)(seed >> 24);
    }}
    u_run(x, u);
    for (unsigned mode = 0; mode < 3; ++mode) {{
        memset(t, 0x55, sizeof t);
        dlb_port_begin(mode, mode);
        t_run(x, t);
        const unsigned long long bytes = dlb_port_end();
        if (memcmp(t, u, sizeof t) != 0 || bytes != {traffic}u) {{
            printf("mode %u: %llu B of {traffic}, or other results\\n", mode, bytes);
            return 1;
        }}
    }}
    printf("equal, {traffic:,} B as planned, late, early and random\\n");
    return 0;
}}
"""
