"""A trial run that measures kernels one by one, for `dlbuild profile --run`."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import NO_TILES, Tile, TilePlan
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook
from dlbuild.run.board import BoardMaker
from dlbuild.run.compile import code_flags
from dlbuild.run.counter import counter
from dlbuild.run.lines import Said
from dlbuild.run.runner import Built, Values, code_steps, run_input, trial_program
from dlbuild.run.runner_program import Compiler
from dlbuild.stages.render import render
from dlbuild.stages.schedule import arrange
from dlbuild.stages.tables import tables

EMPTY = 65535
"""The region between two steps, in which there is no step."""

WHOLE = 65534
"""The region of a run without a mark inside."""

COUNTED_RUNS = 2
"""On an emulator that counts instructions all runs are equal; the second one proves it."""

TIMED_RUNS = 25
"""Of a clock the least of so many counts: what else the machine does only adds."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What was measured.

    unit: of all numbers. costs: of each wanted kernel, what marks cost taken off. whole: of a run
    without any mark inside. mark: what going from one step to the next costs.
    """

    unit: str
    costs: Mapping[str, int]
    whole: int
    mark: int


def plain_plan(  # noqa: PLR0913, PLR0917 - what a model is planned from
    name: str,
    graph: Graph,
    profile: Profile,
    book: RuleBook,
    target: Target,
    options: Options,
    folder: Path,
) -> Built:
    """Return the plan of a trial: every kernel whole, one after the other on one core.

    That is what a measurement is of. It need not fit the budgets of the build.
    """
    options = replace(options, input="caller", output="caller", hook=True, share="")
    target = replace(target, resources=("cores", 1))
    tiles = TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
    schedule = arrange(graph, profile, tiles, target, options)
    return Built(name, graph, profile, schedule, book, target, options, folder, NO_TILES)


def trial(
    built: Built,
    weights: Mapping[str, Array],
    wanted: Sequence[str],
    sample: Values,
    state: Path,
) -> Trial:
    """Run a model on its target and measure the wanted kernels.

    Args:
        built: of `plain_plan`.
        weights: the model's constants.
        wanted: names of kernels; nothing is measured of the others.
        sample: a value for each input.
        state: a folder where the counting plugin is kept.

    Raises:
        UserError: a program cannot be made or run, or counted nothing.
    """
    with tempfile.TemporaryDirectory(prefix="dlbuild-trial-") as work:
        folder = Path(work)
        made = replace(built, folder=folder / "model")
        said = _Program(made, weights, sample, state).run(trial_program(made, wanted), folder)
    least = _least(said)
    mark, whole = least.pop(EMPTY, 0), least.pop(WHOLE, 0)
    steps = {step.number: step.kernel for step in code_steps(built)}
    costs = {steps[region - 1]: max(cost - mark, 0) for region, cost in least.items()}
    missed = [name for name in wanted if name not in costs]
    if missed or not whole:
        raise UserError(
            "the trial was run, but a kernel was not measured",
            where=f"{built.name}@{built.target.name}",
            why=f"no count of {', '.join(missed) or 'the whole run'}",
            fix="let board_mark of its board say 'dlb count'; see docs/runner.md",
        )
    return Trial(said.unit, costs, whole, mark)


def _least(said: Said) -> dict[int, int]:
    """Return the least count of each region on core 0."""
    found: dict[int, int] = {}
    for count in said.counts:
        if count.core == 0:
            found[count.region] = min(count.value, found.get(count.region, count.value))
    return found


@dataclass(frozen=True)
class _Program:
    built: Built
    weights: Mapping[str, Array]
    sample: Values
    state: Path

    def run(self, text: str, work: Path) -> Said:
        """Write the model's C, compile it with the program `text`, run it."""
        built, target = self.built, self.built.target
        built.folder.mkdir()
        fixed = (built.book, target, built.options, built.name)
        texts = render(built.graph, built.profile, NO_TILES, built.schedule, *fixed)
        for file, content in texts.items():
            (built.folder / file).write_text(content, encoding="ascii")
        for file, made in tables(built.graph, self.weights, built.profile, *fixed).items():
            (built.folder / file).write_bytes(made)
        sources = built.tables(work)
        if not target.runner:
            flags = code_flags(target, built.options)
            program = Compiler(target.toolchain.cc, flags).program(text, "trial", sources, work)
            return program.listen(run_input(built, [self.sample], TIMED_RUNS))
        is_counted = "{count}" in target.runner
        runs = COUNTED_RUNS if is_counted else TIMED_RUNS
        board = BoardMaker(target, built.options).program(text, "trial", sources, work)
        plugin = ["-plugin", f"file={counter(self.state)}"] if is_counted else []
        return board.converse(run_input(built, [self.sample], runs), plugin)
