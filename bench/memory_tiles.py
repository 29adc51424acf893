"""Bytes that kernels move through a near memory of 4 to 64 KiB, and the time that predicts.

    python bench/memory_tiles.py [--only NAME] [--run KIB]

For each network: what any order of computation moves layer by layer (each byte that is touched,
once, tables counted), and how many times that the plan moves, with `objective: traffic`. Then the
predicted cycles in units of the computation alone, with one buffer and with two for each operand
that changes. `--run` renders, compiles and runs the networks with a near memory of so many KiB
against the honest copy engine: results equal to those of the resident C, bytes equal to the plan.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent))

import strip_models

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.plans import Kernel, Profile, TilePlan
from dlbuild.ir.target import Memory, Options, Target
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

KIB = 1024
SIZES = (4, 8, 16, 32, 64)
OPTIONS = Options(requantize="fixed")
RESIDENT = Target("resident", cycles={"int8": 1.0})
SETUP_CYCLES, BYTES_PER_CYCLE = 40, 4.0
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


def traffic_row(case: Subject) -> Iterator[str]:
    """Yield the cells of the first table."""
    least = sum(compulsory_bytes(space) for _, space in case.spaces)
    yield f"{least:,}"
    for size in SIZES:
        found = [search(space, Near(size * KIB)) for _, space in case.spaces]
        moved = sum(choice.traffic_bytes for choice in found if choice)
        split = sum(
            _is_split(space, choice) for (_, space), choice in zip(case.spaces, found, strict=True)
        )
        yield f"{moved / least:.3f} ({split})" if all(found) else "does not fit"


def _is_split(space: TileSpace, choice: object) -> bool:
    loops = dict(getattr(choice, "loops", ()))
    return any(axis in loops for axis in space.axes[len(space.axes) - space.reduce :])


def time_row(case: Subject) -> Iterator[str]:
    """Yield the cells of the second table."""
    compute = sum(kernel.cycles for kernel, _ in case.spaces)
    yield f"{compute:,}"
    for size in SIZES:
        cells = []
        for buffers in (1, 2):
            near = [
                search(
                    space,
                    Near(
                        size * KIB,
                        setup_cycles=SETUP_CYCLES,
                        bytes_per_cycle=BYTES_PER_CYCLE,
                        cycles=kernel.cycles,
                        objective="time",
                        buffers=buffers,
                    ),
                )
                for kernel, space in case.spaces
            ]
            total = sum(choice.cycles for choice in near if choice)
            cells.append(f"{total / compute:.3f}" if all(near) else "-")
        yield " / ".join(cells)


def run(case: Subject, size: int, book: RuleBook, folder: Path) -> str:
    """Return what a run of a network against the honest engine says."""
    near = Target(
        "near",
        (Memory("near", size * KIB, holds=("tiles",)), Memory("far", holds=("arena",))),
        cycles={"int8": 1.0},
    )
    traffic = 0
    for side, target in (("t", near), ("u", RESIDENT)):
        plan = tile(case.graph, case.profile, target, OPTIONS, book)
        audit_tiles(case.graph, case.profile, plan, target, OPTIONS, book)
        traffic += sum(tiling.traffic_bytes for tiling in plan.tilings)
        write(case, plan, target, book, folder, side)
    (folder / "main.c").write_text(program(case, traffic))
    files = [f"{name}.c" for name in ("main", "t", "t_weights", "u", "u_weights")]
    port = [f"-I{PORT}", str(PORT / "dlb_port_honest.c")]
    command = ["gcc", "-std=c99", "-O2", *files, *port, "-lm", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./program"], cwd=folder, check=False, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


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


def main() -> int:
    """Print the tables, or run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="networks whose names contain this")
    parser.add_argument("--run", type=int, metavar="KIB", help="run with so large a near memory")
    asked = parser.parse_args()
    book = load_rules([builtin_folder()])
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        cases = [subject(make(), book, folder) for make in NETS if asked.only in make().name]
        if asked.run:
            said = {case.name: run(case, asked.run, book, folder) for case in cases}
            print("\n".join(f"{name:22} {text}" for name, text in said.items()))
            return int(any("equal" not in text for text in said.values()))
        heads = [f"{size} KiB" for size in SIZES]
        print("bytes moved / bytes touched (kernels with cut reductions)")
        table(["least B", *heads], [(case.name, list(traffic_row(case))) for case in cases])
        print("\ncycles / cycles of the computation: one buffer / two")
        table(["cycles", *heads], [(case.name, list(time_row(case))) for case in cases])
    return 0


def table(heads: list[str], rows: list[tuple[str, list[str]]]) -> None:
    """Print rows of cells."""
    for name, cells in [("", heads), *rows]:
        print(f"{name:22}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    sys.exit(main())
