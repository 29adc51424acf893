"""What `dlbuild size` knows of functions that differ in numbers alone."""

from collections import Counter
from collections.abc import Iterator, Mapping

from dlbuild.build.engine import Engine
from dlbuild.build.project import Build
from dlbuild.cli.bench import figures_of
from dlbuild.ir.merged import NOT_MERGED, MergedFunctions, merged_from

Decided = tuple[MergedFunctions | None, Mapping[str, tuple[int, int]]]
"""What a build decided, None if it counts no flash; of each group that is one function, by the
first of its functions, what its layers cost in a run, apart and as one."""


def merged_functions(engine: Engine, *, is_run: bool) -> Iterator[tuple[str, Decided]]:
    """Yield what each build decided, by its label. is_run: run it on its target both ways."""
    for one in engine.keys.recipe.builds:
        content = engine.content(one, "merged")
        found = merged_from(content)
        costs = _costs(engine, one, found) if is_run and found.merged else {}
        yield one.label, (found if content else None, costs)


def _costs(engine: Engine, one: Build, found: MergedFunctions) -> Mapping[str, tuple[int, int]]:
    apart, together = (_kernels(engine, one, how) for how in (NOT_MERGED, found))
    return {
        group.functions[0]: (
            sum(apart[kernel] for kernel in group.kernels),
            sum(together[kernel] for kernel in group.kernels),
        )
        for group in found.groups
        if group.is_merged
    }


def _kernels(engine: Engine, one: Build, merged: MergedFunctions) -> Counter[str]:
    """Return what each kernel costs, nothing of what is not run layer by layer on one core."""
    found: Counter[str] = Counter()
    for step in figures_of(engine, one, count=True, merged=merged).steps:
        found[step.kernel] += step.cost
    return found
