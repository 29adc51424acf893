"""Ways out for a model that does not fit: other options, each planned before it is offered."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from dlbuild.base.errors import UserError
from dlbuild.base.units import bytes_text
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.budget import check_model, size_text
from dlbuild.stages.passes import again_macs
from dlbuild.stages.schedule import arrange
from dlbuild.stages.strips import budget_of, with_arena_of
from dlbuild.stages.tile import tile

MOST = 3
"""So many ways are offered, the cheapest first."""

MOST_RECOMPUTE = 2.0
DIGITS = 100
"""A way's `max_recompute` is rounded up to hundredths."""

Change = Mapping[str, str | float]
"""Options and what they are set to."""


@dataclass(frozen=True, slots=True)
class Way:
    """A change of options with which the model fits.

    size_bytes: of the arena then. work: multiplications over those of the model.
    """

    change: str
    size_bytes: int
    work: float

    def text(self) -> str:
        """Return the line of an error."""
        more = f" at {self.work:.3f} times the multiplications" if self.work > 1 else ""
        return f"would fit: {self.change} ({bytes_text(self.size_bytes)}{more})"


def check_fit(  # noqa: PLR0913, PLR0917 - a plan, and what it was made of
    graph: Graph,
    profile: Profile,
    tiles: TilePlan,
    target: Target,
    options: Options,
    book: RuleBook,
) -> None:
    """Refuse a model whose arena exceeds its budget, and say with which options it would fit.

    The budget that the error names was planned for: a plan for another one may need other bytes.

    Raises:
        UserError: of `check_model`, with the cheapest ways out.
    """
    budget = budget_of(target)
    if budget is None:
        return
    plan = arrange(graph, profile, tiles, target, options)
    enough = 0
    (use, *_) = plan.memories
    if use.height_bytes > budget and target.resources[1] == 1:
        planner = _Planner(graph, profile, target, options, book)
        enough, made = planner.enough(use.height_bytes)
        found_plan = arrange(graph, profile, made, target, options)
        plan = found_plan if found_plan.memories[0].height_bytes > budget else plan
    try:
        check_model(graph, profile, plan, target)
    except UserError as fault:
        fix = f"set {use.memory}: {size_text(enough)}" if enough else fault.fix
        found = [way.text() for way in ways_out(graph, profile, target, options, book)]
        raise UserError(
            fault.what,
            where=fault.where,
            details=(*fault.details, *found),
            fix=f"{fix}, or the options of a line above" if found else fix,
        ) from fault


def ways_out(
    graph: Graph, profile: Profile, target: Target, options: Options, book: RuleBook
) -> list[Way]:
    """Return the cheapest changes with which the arena fits its budget.

    Cheap is what changes the caller's buffers alone, then how it hands over the input, then what
    computes parts of the model twice, and last what makes strips possible: one core.
    """
    planner = _Planner(graph, profile, target, options, book)
    found: list[Way] = []
    known: list[Change] = []
    for change in _changes(options):
        if any(before.items() <= change.items() for before in known):
            continue  # less does
        way = planner.tried(change)
        if way is not None:
            found.append(way)
            known.append(change)
        if len(found) == MOST:
            return found
    kind, count = target.resources
    if count > 1:
        # One core alone makes strips.
        alone = replace(planner, target=replace(target, resources=(kind, 1))).tried({})
        found += [replace(alone, change=f"resources: {{{kind}: 1}}")] if alone else []
    return found


def _changes(options: Options) -> list[Change]:
    """Return what may be tried, the cheapest first."""
    inputs = {"arena": ("caller",), "streamed": (), "external": ("caller",), "caller": ()}
    found: list[Change] = []
    for mode in (options.input, *inputs[options.input], "streamed", "external"):
        for output in (options.output, "arena" if options.output == "caller" else "caller"):
            for most in (options.max_recompute, MOST_RECOMPUTE):
                is_streamed = mode == "streamed"
                if is_streamed and (output != "arena" or most > options.max_recompute):
                    continue
                if output == "arena" and options.output == "caller" and not is_streamed:
                    continue
                change: dict[str, str | float] = {}
                if mode != options.input:
                    change["input"] = mode
                if output != options.output:
                    change["output"] = output
                if most > options.max_recompute:
                    change["max_recompute"] = most
                if change and change not in found:
                    found.append(change)
    return sorted(found, key=lambda change: ("max_recompute" in change, len(change)))


@dataclass(frozen=True)
class _Planner:
    graph: Graph
    profile: Profile
    target: Target
    options: Options
    book: RuleBook

    def enough(self, height_bytes: int) -> tuple[int, TilePlan]:
        """Return a size of the arena's memory for which a plan fits, and that plan.

        height_bytes: of a plan that exceeds the budget; no smaller size is tried.
        """
        needed = height_bytes + (self.target.stack_bytes or 0)
        while True:
            target = with_arena_of(self.target, needed)
            tiles = tile(self.graph, self.profile, target, self.options, self.book)
            (use, *_) = arrange(self.graph, self.profile, tiles, target, self.options).memories
            size_bytes = use.height_bytes + (self.target.stack_bytes or 0)
            if size_bytes <= needed:
                return needed, tiles
            needed = size_bytes

    def tried(self, change: Change) -> Way | None:
        """Plan with a change; None if that does not fit, or does not go."""
        way = self._planned(change)
        if way is None or "max_recompute" not in change:
            return way
        # No more than it takes: planned anew with that, since the option is what is offered.
        return self._planned({**change, "max_recompute": ceil(way.work * DIGITS) / DIGITS})

    def _planned(self, change: Change) -> Way | None:
        options = replace(self.options, **change)  # type: ignore[arg-type] # by its name
        try:
            tiles = tile(self.graph, self.profile, self.target, options, self.book)
        except UserError:
            return None
        (use, *_) = arrange(self.graph, self.profile, tiles, self.target, options).memories
        budget = budget_of(self.target)
        if budget is None or use.height_bytes > budget:
            return None
        macs = sum(kernel.macs for kernel in self.profile.kernels)
        work = 1 + again_macs(self.profile, tiles) / macs if macs else 1.0
        text = ", ".join(f"{key}: {value}" for key, value in change.items())
        return Way(text, use.height_bytes, work)
