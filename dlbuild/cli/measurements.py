"""Files of measurements: which builds share one, and whether it is up to date."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from dlbuild.build.engine import Engine
from dlbuild.build.project import Build
from dlbuild.ir import codec
from dlbuild.ir.costs import Costs, Measurements
from dlbuild.ir.profile import Profile
from dlbuild.report.profile import out_of_date_text
from dlbuild.stages.costs import missing


def costs_of(engine: Engine, one: Build) -> Costs:
    """Return what the kernels of a build cost."""
    return codec.decode(engine.content(one, "costs"), Costs)


def out_of_date(engine: Engine, *, is_whole: bool) -> Iterator[str]:
    """Yield what to say of measurement files that a run would change.

    is_whole: all builds of the recipe were made, so that what none of them has is in vain.
    """
    for file, builds in files_of(engine).items():
        found = read_measurements(Path(file))
        labels = []
        for one in builds:
            lacking = missing(profile_of(engine, one), costs_of(engine, one))
            if lacking:
                labels.append(f"{one.label}: {', '.join(lacking)}")
        stale = len(found.entries) - len(current(engine, builds, found).entries)
        yield from out_of_date_text(file, labels, stale if is_whole else 0)


def read_measurements(file: Path) -> Measurements:
    """Return the measurements of a file; of one that is not there, none."""
    if not file.is_file():
        return Measurements()
    return codec.decode(file.read_bytes(), Measurements, file.as_posix())


def files_of(engine: Engine) -> Mapping[str, list[Build]]:
    """Return the builds that share each measurement file."""
    found: dict[str, list[Build]] = {}
    for one in engine.keys.recipe.builds:
        if one.options.profile:
            found.setdefault(one.options.profile, []).append(one)
    return found


def current(engine: Engine, builds: list[Build], found: Measurements) -> Measurements:
    """Return the measurements whose kernels still occur."""
    used = {cost.signature for one in builds for cost in costs_of(engine, one).kernels}
    return found.only(frozenset(used), frozenset(one.target for one in builds))


def profile_of(engine: Engine, one: Build) -> Profile:
    """Return the kernels of a build."""
    return codec.decode(engine.content(one, "profile"), Profile)
