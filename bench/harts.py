"""Networks on emulated RISC-V harts: planned for several, checked by both audits, and run."""

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.project import Build
from dlbuild.cli.main import run as dlbuild
from dlbuild.cli.measurements import costs_of
from dlbuild.ir import weights
from dlbuild.ir.costs import Costs
from dlbuild.ir.weights import Array
from dlbuild.run.board import BoardMaker
from dlbuild.run.counter import counter
from dlbuild.run.lines import Said
from dlbuild.run.runner import Built, Values, model_program, run_input
from dlbuild.run.samples import samples_of
from dlbuild.run.strangers import watched
from dlbuild.stages.audit import audit
from dlbuild.stages.audit_cores import audit_cores
from dlbuild.stages.cluster_weights import cluster_weights
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.render import render
from dlbuild.stages.split import core_plan
from dlbuild.stages.tables import tables

TARGET = {"extends": "rv32imafc", "requantize": "fixed", "profile": "times.json"}
"""One hart, whose kernels are measured."""


@dataclass(frozen=True)
class Net:
    """A network as planned for one hart.

    numbers: its constants. sample: an input. source: its model. state: where the plugin is kept.
    """

    name: str
    built: Built
    costs: Costs
    numbers: Mapping[str, Array]
    sample: Values
    source: Path
    state: Path


def measure_kernels() -> None:
    """Measure the kernels of the project in this folder; what is printed is no part of a table."""
    out = sys.stdout
    sys.stdout = sys.stderr
    try:
        status = dlbuild(("profile", "--run"))
    finally:
        sys.stdout = out
    if status != 0:
        raise SystemExit(f"dlbuild profile --run ended with {status}")


def net_of(engine: Engine, one: Build) -> Net:
    """Return a network as it was built."""
    model = engine.keys.recipe.models[one.model]
    built = built_of(engine, one)
    return Net(
        one.model,
        built,
        costs_of(engine, one),
        weights.decode(engine.content(one, "weights")),
        samples_of(model.samples, built.graph)[0].inputs,
        model.source.resolve(),
        engine.out / STATE_FOLDER,
    )


def dealt(built: Built, costs: Costs) -> Built:
    """Plan a network for the harts of its target; both audits have to accept it."""
    graph, plan, target, options = built.graph, built.profile, built.target, built.options
    tiles = core_plan(graph, plan, costs, target, options, built.book)
    schedule = schedule_cores(graph, plan, costs, tiles, target, options)
    audit_cores(graph, plan, tiles, schedule)
    audit(graph, plan, tiles, schedule, target, options)
    return replace(built, tiles=tiles, schedule=schedule)


def said(
    net: Net, built: Built, inputs: Sequence[Values], n_runs: int, *, is_watched: bool = False
) -> Said:
    """Run a plan of a network on each input.

    is_watched: see who touches the memory of another cluster.
    """
    with tempfile.TemporaryDirectory(prefix="dlbuild-harts-") as work:
        folder = Path(work)
        built = replace(built, folder=folder / "model")
        built.folder.mkdir()
        fixed = (built.book, built.target, built.options, built.name)
        plan, tiles, schedule = built.profile, built.tiles, built.schedule
        for file, text in render(built.graph, plan, tiles, schedule, *fixed).items():
            (built.folder / file).write_text(text, encoding="ascii")
        numbers = cluster_weights(built.graph, net.numbers)
        made = tables(built.graph, numbers, built.profile, *fixed, built.tiles)
        for file, content in made.items():
            (built.folder / file).write_bytes(content)
        sources = [*built.tables(folder), *built.ports(is_honest=False)]
        maker = BoardMaker(built.target, built.options)
        program = maker.program(model_program(built), "run", sources, folder)
        plugin = f"file={counter(net.state)}{watched(built, program) if is_watched else ''}"
        return program.converse(run_input(built, inputs, n_runs), ["-plugin", plugin])


def verdict(rows: Iterable[Sequence[str]]) -> int:
    """Print the faults of each row as it is made, then how many have none; return the status."""
    passed = failed = 0
    for faults in rows:
        failed += bool(faults)
        passed += not faults
        for fault in faults:
            print(f"    FAILED: {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
