"""What a run of a model costs on its target: instructions or time, stack, and RAM written."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.ir.schedule import Schedule, Step
from dlbuild.ir.weights import Array
from dlbuild.run.board import BoardMaker
from dlbuild.run.callgrind import instructions
from dlbuild.run.compile import code_flags
from dlbuild.run.cores import core_flags
from dlbuild.run.counter import counter
from dlbuild.run.elf import Symbol, symbols
from dlbuild.run.lines import Range, Said
from dlbuild.run.runner import Built, Values, model_program, run_input
from dlbuild.run.runner_program import Compiler, Program
from dlbuild.stages.arena import NEAR
from dlbuild.stages.render import render
from dlbuild.stages.tables import tables

N_RUNS = 2


@dataclass(frozen=True, slots=True)
class StepCost:
    """One call of a run: a step, or all steps of a strip. cost: in the unit of the figures.

    step: its first. kernel: of a strip, the first and the last, since its rows alternate.
    """

    step: int
    kernel: str
    macs: int
    cost: int


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes that a run wrote, each counted once, by where they lie.

    errno: the C library's, which its functions of floats set. elsewhere: none of these. where:
    symbols or addresses of those.
    """

    arena: int
    outputs: int
    stack: int
    errno: int = 0
    elsewhere: int = 0
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one model on one target.

    unit: of cost, `instructions`, `ns`, or what the board says. cost: of one whole run.
    is_repeatable: all runs cost the same. steps: measured with a hook between them, of which the
    compiler makes other code, so that their sum is not the run's cost.
    stack_bytes: overwritten by a run; None if the target does not say. stack_limit: what
    `dlbuild size` says.
    written: None if it was not observed.
    content: the outputs, as the program gave them back.
    """

    model: str
    target: str
    unit: str
    cost: int
    is_repeatable: bool
    macs: int
    steps: tuple[StepCost, ...]
    stack_bytes: int | None
    stack_limit: int | None
    arena_bytes: int
    written: Written | None
    content: bytes = b""

    @property
    def faults(self) -> tuple[str, ...]:
        """What must not be: more stack than was said, bytes written elsewhere."""
        found = []
        used, limit = self.stack_bytes, self.stack_limit
        if used is not None and limit is not None and used > limit:
            found.append(f"a run used {used:,} B of stack, 'dlbuild size' says {limit:,} B")
        if self.written is not None and self.written.elsewhere:
            found.append(
                f"a run wrote {self.written.elsewhere:,} B outside arena, outputs and stack:"
                f" {', '.join(self.written.where)}"
            )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Bench:
    """What is to be measured.

    weights: the model's constants. archive: the objects as they were built.
    stack_limit: what their call graph says.
    state: a folder where the plugin is kept. steps: whether each step is measured too. count:
    whether instructions are counted on this machine, if valgrind is there.
    """

    built: Built
    weights: Mapping[str, Array]
    archive: Path
    stack_limit: int | None
    state: Path
    steps: bool = True
    count: bool = True


def bench(asked: Bench, sample: Values) -> Figures:
    """Measure a run of a model, as its archive has it.

    Raises:
        UserError: a program cannot be made or run.
    """
    with tempfile.TemporaryDirectory(prefix="dlbuild-bench-") as work:
        folder = Path(work)
        if asked.built.target.runner:
            return _on_board(asked, sample, folder)
        return _on_host(asked, sample, folder)


def _on_board(asked: Bench, sample: Values, work: Path) -> Figures:
    built = asked.built
    maker = BoardMaker(built.target, built.options)
    sent = run_input(built, [sample], 1)
    counts: list[str] = []
    if "{count}" in built.target.runner:
        counts = ["-plugin", f"file={counter(asked.state)}"]
    with_memory = [*counts[:1], *(f"{word},mem=1" for word in counts[1:])]
    ports = built.ports(is_honest=False)
    text = model_program(built, is_linked=True)
    program = maker.program(text, "run", [asked.archive, *built.images(work), *ports], work)
    runs = [program.converse(sent, with_memory), program.converse(sent, counts)]
    parts = Said()
    if asked.steps and _has_steps(built):
        hooked, texts = _hooked(asked, work)
        stepped = maker.program(model_program(hooked), "steps", [*texts, *ports], work)
        parts = stepped.converse(sent, counts)
    written = written_places(symbols(program.file), runs[0].written) if counts else None
    return _figures(asked, runs, parts, written)


def _on_host(asked: Bench, sample: Values, work: Path) -> Figures:
    built = asked.built
    maker = Compiler(
        built.target.toolchain.cc,
        (*code_flags(built.target, built.options), *core_flags(built.target)),
    )
    sent = run_input(built, [sample], 1)
    ports = built.ports(is_honest=False)
    text = model_program(built, is_linked=True)
    program = maker.program(text, "run", [asked.archive, *built.images(work), *ports], work)
    runs = [_listen(program, asked, sent, work) for _ in range(N_RUNS)]
    parts = Said()
    if asked.steps and _has_steps(built):
        hooked, texts = _hooked(asked, work)
        stepped = maker.program(model_program(hooked), "steps", [*texts, *ports], work)
        parts = _listen(stepped, asked, sent, work)
    return _figures(asked, runs, parts, None)


def _has_steps(built: Built) -> bool:
    """Say whether there can be a hook between the steps."""
    return built.options.input != "streamed" and built.target.resources[1] == 1


def _listen(program: Program, asked: Bench, sent: bytes, work: Path) -> Said:
    """Count instructions if valgrind is there, else take the time."""
    is_counted = asked.count and asked.built.target.resources[1] == 1
    counted = instructions(program, asked.built.name, sent, work) if is_counted else None
    return counted or program.listen(sent)


def _hooked(asked: Bench, work: Path) -> tuple[Built, tuple[Path, ...]]:
    """Return the same plan with a hook between its steps, and the files of its tables."""
    plain = asked.built
    built = replace(plain, options=replace(plain.options, hook=True), folder=work / "hooked")
    built.folder.mkdir()
    fixed = (built.book, built.target, built.options, built.name)
    plans = (built.graph, built.profile, built.tiles, built.schedule)
    texts = render(*plans, *fixed, built.merged)
    for name, text in texts.items():
        (built.folder / name).write_text(text, encoding="ascii")
    numbers = tables(built.graph, asked.weights, built.profile, *fixed, built.tiles)
    for name, content in numbers.items():
        (built.folder / name).write_bytes(content)
    return built, built.tables(work)


def called_steps(plan: Schedule) -> tuple[tuple[Step, ...], ...]:
    """Return the steps of each call of a run on one core, behind which its hook is called."""
    called = [step for step in plan.steps if step.is_code or step.strip]
    groups = groupby(called, key=lambda step: (step.strip, 0 if step.strip else step.number))
    return tuple(tuple(steps) for _, steps in groups)


def _cost(built: Built, steps: Sequence[Step], cost: int) -> StepCost:
    names = list(dict.fromkeys(step.kernel for step in (steps[0], steps[-1])))
    macs = sum(built.profile.kernel[step.kernel].macs for step in steps)
    return StepCost(steps[0].number, " to ".join(names), macs, cost)


def _figures(asked: Bench, runs: Sequence[Said], steps: Said, written: Written | None) -> Figures:
    built = asked.built
    costs = [count.value for said in runs for count in said.counts if count.core == 0]
    if not costs:
        raise UserError(
            "the program was run, but nothing was counted",
            where=f"{built.name}@{built.target.name}",
            fix="let board_mark of its board say 'dlb count'; see docs/runner.md",
        )
    parts = [count.value for count in steps.counts if count.core == 0]
    return Figures(
        model=built.name,
        target=built.target.name,
        unit=runs[0].unit,
        cost=min(costs),
        is_repeatable=len(set(costs)) == 1,
        macs=sum(kernel.macs for kernel in built.profile.kernels),
        steps=tuple(
            _cost(built, steps, cost)
            for steps, cost in zip(called_steps(built.schedule), parts, strict=False)
        ),
        stack_bytes=max((size for said in runs for size in said.stacks), default=None),
        stack_limit=asked.stack_limit,
        arena_bytes=sum(use.height_bytes for use in built.schedule.memories),
        written=written,
        content=bytes(runs[0].content),
    )


_STACK = ("board_stack_limit", "board_stack_end")

_OWN = ("job", "progress_of", "board_core_stacks", "begun")
"""What several cores write to meet, and their stacks; which weights an inference began with."""

_ERRNO = ("impure_data", "_impure_data", "errno")
"""What begins with the C library's errno: newlib's first instance of its state, or errno itself."""

_ERRNO_BYTES = 4

Place = Symbol | Range


def written_places(names: Sequence[Symbol], ranges: Sequence[Range]) -> Written:
    """Say where the bytes lie that a run wrote."""
    # The arena is the model's, or the program's for the model; so are the outputs. Near memories
    # are the arena's as well.
    known = {"arena", "dlb_arena", *NEAR}
    arenas = [one for one in names if one.name in known or one.name.startswith("arena_")]
    outputs = [one for one in names if one.name.startswith("dlb_") and one not in arenas]
    at = {one.name: one.address for one in names}
    stack = Range(at[_STACK[0]], at[_STACK[1]] - at[_STACK[0]])
    rest = list(ranges)
    cores = [one for one in names if one.name in _OWN]
    errno = [Range(one.address, _ERRNO_BYTES) for one in names if one.name in _ERRNO]
    places: list[Place] = [*arenas, *outputs, stack, *cores, *errno]
    for place in places:
        rest = [part for one in rest for part in _without(one, place)]
    return Written(
        arena=_overlap(ranges, arenas),
        outputs=_overlap(ranges, outputs),
        stack=_overlap(ranges, [stack]),
        errno=_overlap(ranges, errno),
        elsewhere=sum(one.size_bytes for one in rest),
        where=tuple(dict.fromkeys(_cited(one, names) for one in rest)),
    )


def _overlap(ranges: Sequence[Range], places: Sequence[Place]) -> int:
    return sum(
        max(0, min(one.end, place.end) - max(one.address, place.address))
        for one in ranges
        for place in places
    )


def _without(one: Range, place: Place) -> list[Range]:
    """Return what is left of a range outside a place."""
    before = Range(one.address, min(one.end, place.address) - one.address)
    behind = Range(max(one.address, place.end), one.end - max(one.address, place.end))
    return [part for part in (before, behind) if part.size_bytes > 0]


def _cited(one: Range, names: Sequence[Symbol]) -> str:
    """Name the symbol in which a range begins, or else behind which it lies."""
    before = [name for name in names if name.address <= one.address]
    nearest = max(before, key=lambda name: (name.address, name.size_bytes), default=None)
    if nearest is None:
        return f"{one.address:#010x}"
    if one.address < nearest.end:
        return f"in {nearest.name}"
    return f"{one.address - nearest.end} B behind {nearest.name}"
