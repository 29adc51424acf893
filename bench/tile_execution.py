"""Plans for a near memory, rendered, compiled and run beside the resident C of the same network."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables

PORT = builtin_folder() / "templates" / "port"
SIDES = ("t", "u")
"""Names of the tiled model and of the resident one."""


@dataclass(frozen=True)
class Network:
    """A network of one input and one output, profiled."""

    graph: Graph
    weights: dict[str, Array]
    profile: Profile


class Execution:
    """Runs of plans of one network, whose resident C is made and compiled once."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a rendering is made of
        self,
        network: Network,
        resident: TilePlan,
        target: Target,
        options: Options,
        book: RuleBook,
        folder: Path,
    ) -> None:
        """Compile the resident C into a folder. target: of that, without a near memory."""
        self._network = network
        self._options, self._book, self._folder = options, book, folder
        folder.mkdir()
        self._write(resident, target, SIDES[1])
        files = [f"{SIDES[1]}.c", f"{SIDES[1]}_weights.c", str(PORT / "dlb_port_honest.c")]
        self._gcc("-c", *files)

    def run(self, plan: TilePlan, target: Target) -> tuple[int, str]:
        """Return the bytes that a plan moves, and what a run against the honest engine says."""
        traffic = sum(tiling.moved_bytes for tiling in plan.tilings)
        self._write(plan, target, SIDES[0])
        (self._folder / "main.c").write_text(_program(self._network.graph, traffic))
        files = ["main.c", *(f"{SIDES[0]}{end}.c" for end in ("", "_weights"))]
        objects = [f"{SIDES[1]}.o", f"{SIDES[1]}_weights.o", "dlb_port_honest.o"]
        self._gcc(*files, *objects, "-lm", "-o", "program")
        done = subprocess.run(
            ["./program"], cwd=self._folder, check=False, capture_output=True, text=True
        )
        return traffic, (done.stdout + done.stderr).strip()

    def _gcc(self, *arguments: str) -> None:
        command = ["gcc", "-std=c99", "-O2", f"-I{PORT}", *arguments]
        subprocess.run(command, cwd=self._folder, check=True)

    def _write(self, plan: TilePlan, target: Target, side: str) -> None:
        """Write the C files of one side."""
        net, options, book = self._network, self._options, self._book
        order = schedule(net.graph, net.profile, plan, target, options)
        texts = render(net.graph, net.profile, plan, order, book, target, options, side)
        for file, text in texts.items():
            (self._folder / file).write_text(text, encoding="ascii")
        given = (net.graph, net.weights, net.profile, book, target, options, side)
        for file, content in tables(*given).items():
            (self._folder / file).write_bytes(content)


def _program(graph: Graph, traffic: int) -> str:
    """Return a program that compares both sides, copying late, early and at random."""
    (source,), (result,) = graph.inputs, graph.outputs
    count, size = graph.tensor[source].count, graph.tensor[result].count
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
    int n_others = 0;
    for (int i = 1; i < {size}; ++i) {{
        n_others += u[i] != u[0];
    }}
    if (n_others == 0) {{
        printf("all results are the same number, which tells nothing\\n");
        return 1;
    }}
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
