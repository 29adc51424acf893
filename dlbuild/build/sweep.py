"""One recipe built at many points: options and sizes of memories, each point for itself.

Every point is a build of one model for one target in a folder of its own that is thrown away; what
it made is in the store, so that a second sweep, or one that was broken off, runs only what is new.
"""

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.paths import package_folder
from dlbuild.base.spelling import suggestion
from dlbuild.build.builder import How, build
from dlbuild.build.engine import Engine, Finished
from dlbuild.build.options import MEMORY, memory_names, read_override
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build, Recipe
from dlbuild.build.recipe import read_recipe
from dlbuild.build.sizes import decode_sizes
from dlbuild.build.steps.book import book_of
from dlbuild.emit.helpers import helper_names
from dlbuild.ir import codec
from dlbuild.ir.costs import Costs
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.run.toolchain import identify
from dlbuild.stages.passes import again_macs

_LOADED_NS = time.time_ns()
"""When this process loaded our code, whose digests are in the keys of what it makes."""


@dataclass(frozen=True)
class Axis:
    """A setting and its values. key: an option of a build, or `memory.` and the name of one."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """One build of a sweep. All that a process needs that shares our file system.

    recipe: absolute path. settings: values by key, in the order of the axes. cache: the user's
    store.
    """

    recipe: str
    model: str
    target: str
    settings: tuple[tuple[str, str], ...]
    cache: str


@dataclass(frozen=True)
class Outcome:
    """What a point takes, or why it cannot be built. stages: how many had to run.

    macs: executed in a run, rows that are computed again included. cost: of all kernels, in `unit`.
    """

    point: Point
    arena_bytes: int = 0
    flash_bytes: int = 0
    stack_bytes: int | None = None
    macs: int = 0
    cost: int = 0
    unit: str = ""
    fault: str = ""
    stages: int = 0

    @property
    def figures(self) -> tuple[int, ...]:
        """What should be small: arena, flash, MACs, cost."""
        return self.arena_bytes, self.flash_bytes, self.macs, self.cost


def read_axis(text: str) -> Axis:
    """Read `key=value,value` of the command line.

    Raises:
        UserError: no value, an unknown key, or a value that it cannot have.
    """
    key, _, said = text.partition("=")
    values = tuple(value.strip() for value in said.split(",") if value.strip())
    if not values:
        raise UserError(
            f"'{text}' gives no values", where="--over", fix=f"write {key}=A,B", exit_code=2
        )
    for value in values:
        read_override(f"{key}={value}", "--over")
    return Axis(key, values)


def points_of(recipe: Recipe, file: Path, axes: Sequence[Axis], cache: str) -> tuple[Point, ...]:
    """Return all points of all builds of a recipe, in the order of builds and values.

    Raises:
        UserError: a target has no memory of that name.
    """
    found = []
    for one in recipe.builds:
        for axis in axes:
            _check_memory(axis.key, recipe.targets[one.target])
        for values in product(*(axis.values for axis in axes)):
            settings = tuple(zip((axis.key for axis in axes), values, strict=True))
            found.append(Point(file.absolute().as_posix(), one.model, one.target, settings, cache))
    return tuple(found)


def evaluate(point: Point) -> Outcome:
    """Build one point; in any process that sees the recipe's files."""
    if _is_code_older():
        return Outcome(point, fault="dlbuild was changed since this worker began: start it again")
    # A worker may outlive many sweeps: its rules may have changed.
    book_of.cache_clear()
    helper_names.cache_clear()
    if point.cache:
        os.environ["DLBUILD_CACHE_DIR"] = point.cache
    stages = 0

    def count(finished: Finished) -> None:
        nonlocal stages
        stages += finished.was_run

    with tempfile.TemporaryDirectory(prefix="dlbuild-") as folder:
        try:
            recipe = _recipe(point)
            engine = build(recipe, PIPELINE, How(Path(folder)), identify, count)
        except UserError as error:
            return Outcome(point, fault=error.what, stages=stages)
        except ExceptionGroup as group:
            first = group.exceptions[0]
            if not isinstance(first, UserError):
                raise
            return Outcome(point, fault=first.what, stages=stages)
        return replace(_measured(engine, recipe.builds[0], point), stages=stages)


def _is_code_older() -> bool:
    """Say whether our files are no longer those that this process has loaded."""
    files = package_folder().rglob("*.py")
    return any(path.stat().st_ctime_ns > _LOADED_NS for path in files)


def best(outcomes: Sequence[Outcome]) -> frozenset[Point]:
    """Return the points of a model on a target that no other is better than: the Pareto front."""
    front = []
    for one in outcomes:
        rivals = [
            other.figures
            for other in outcomes
            if not other.fault
            and (other.point.model, other.point.target) == (one.point.model, one.point.target)
            and other.figures != one.figures
        ]
        is_beaten = any(
            all(a <= b for a, b in zip(rival, one.figures, strict=True)) for rival in rivals
        )
        if not one.fault and not is_beaten:
            front.append(one.point)
    return frozenset(front)


def _recipe(point: Point) -> Recipe:
    recipe = read_recipe(Path(point.recipe), [f"{k}={v}" for k, v in point.settings])
    builds = [b for b in recipe.builds if (b.model, b.target) == (point.model, point.target)]
    return replace(recipe, builds=tuple(builds))


def _measured(engine: Engine, one: Build, point: Point) -> Outcome:
    sizes = decode_sizes(engine.content(one, "size"))
    schedule = codec.decode(engine.content(one, "schedule"), Schedule)
    profile = codec.decode(engine.content(one, "profile"), Profile)
    tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
    costs = codec.decode(engine.content(one, "costs"), Costs)
    return Outcome(
        point,
        arena_bytes=sum(use.height_bytes for use in schedule.memories),
        flash_bytes=sizes.flash_bytes + sizes.image_bytes,
        stack_bytes=sizes.stack_bytes,
        macs=sum(profile.kernel[step.kernel].macs for step in schedule.steps)
        + again_macs(profile, tiles),
        cost=costs.total,
        unit=costs.unit,
    )


def _check_memory(key: str, target: Target) -> None:
    names = memory_names(target)
    name = key.removeprefix(MEMORY)
    if key.startswith(MEMORY) and name not in names:
        raise UserError(
            f"target '{target.name}' has no memory '{name}'",
            where="--over",
            fix=suggestion(name, names) if names else "give it memories",
            exit_code=2,
        )
