"""Builds a recipe: one task for each stage of each build, and for each check of a target."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.base.files import sweep, write_if_changed
from dlbuild.base.paths import builtin_folder
from dlbuild.build.cache import Far, open_store
from dlbuild.build.engine import Engine, Finished, LostContentError, path_of
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.job import ModelFiles
from dlbuild.build.keys import Identify, KeyMaker, files_under
from dlbuild.build.ledger import LEDGER, Ledger, read_ledger, write_ledger
from dlbuild.build.lock import locked
from dlbuild.build.project import Build, Recipe
from dlbuild.build.stage import FILES, Gate, Pipeline, Stage
from dlbuild.build.task import Task, find_all, run_in_order
from dlbuild.ir.target import Target
from dlbuild.run.fragments import depfile

DEFAULT_OUT = Path("build/dlbuild")


class GateModule(Protocol):
    """A module that a gate names."""

    check: Callable[[Target, Sequence[ModelFiles]], None]


@dataclass(frozen=True)
class How:
    """How to build. jobs: tasks at once. keep_going: after a failure, build what can be built.

    current: labels of all builds that dlbuild.yaml has; the files of others are removed. None =
    remove nothing. remote: a store that is asked for what the user's has not. keys: makes
    the keys of stages from what is known of the last build, instead of from the recipe.
    """

    out: Path = DEFAULT_OUT
    jobs: int = 1
    keep_going: bool = False
    current: tuple[str, ...] | None = None
    remote: Far | None = None
    keys: Callable[[Ledger], KeyMaker] | None = None


def build(
    recipe: Recipe,
    pipeline: Pipeline,
    how: How,
    identify: Identify,
    report: Callable[[Finished], None],
) -> Engine:
    """Bring every build of the recipe up to date.

    Args:
        recipe: what to build.
        pipeline: by which stages.
        how: where, and with what.
        identify: tells one version of a program from another.
        report: called after each stage that needed work.

    Returns:
        The engine, which knows all files that were made.

    Raises:
        ExceptionGroup: the errors of all tasks that failed.
    """
    state = how.out / STATE_FOLDER
    with locked(how.out):
        ledger = read_ledger(state / LEDGER)
        keys = how.keys(ledger) if how.keys else KeyMaker(recipe, identify)
        ledger.number += 1
        store = open_store(state, how.remote)
        store.hold_recent()
        engine = Engine(keys, store, ledger, how.out, report)
        sweep(engine.unfinished)  # of a build that was killed, as only one runs here at a time
        try:
            _run_all(engine, pipeline, how)
            for one in recipe.builds:
                _write_depfile(engine, pipeline, one)
                _remove_unmade(engine, pipeline, one)
            if how.current is not None:
                remove_stale(how.out, ledger, how.current)
            engine.store.tidy()
        finally:
            write_ledger(state / LEDGER, ledger)
    return engine


def _run_all(engine: Engine, pipeline: Pipeline, how: How) -> None:
    """Run what has to run; once more if the store lost what it had, as it is then made anew."""
    for is_last in (False, True):
        try:
            left = find_all(_tasks(engine, engine.keys.recipe, pipeline))
            if left:
                _run_left(left, how)
        except* LostContentError:
            if is_last:
                raise
            engine.store.keeps_in_memory = True
        else:
            return


def _run_left(left: Sequence[Task], how: How) -> None:
    if how.jobs == 1 and not how.keep_going:
        run_in_order(left)
        return
    from dlbuild.build.tasks import run_tasks  # noqa: PLC0415 - doit takes longer than some builds

    run_tasks(left, how.jobs, keep_going=how.keep_going)


def _remove_unmade(engine: Engine, pipeline: Pipeline, one: Build) -> None:
    """Remove what an earlier build wrote and this one does not: it is of other inputs."""
    stages = pipeline.on(engine.keys.recipe.targets[one.target]).stages
    made = {name for stage in stages for name in stage.makes} | {"depfile"}
    kept = {
        path_of(engine.out, one, name).relative_to(engine.out).as_posix()
        for name in FILES
        if name in made
    }
    written = engine.ledger.written[one.label]
    unmade = {name: digest for name, digest in written.items() if name not in kept}
    remove_written(engine.out, unmade)
    engine.ledger.written[one.label] = {n: d for n, d in written.items() if n not in unmade}


def _write_depfile(engine: Engine, pipeline: Pipeline, one: Build) -> None:
    """Tell the build around ours what our files depend on: the user's files, as they named them.

    Raises:
        UserError: a file name that Make and Ninja would read differently.
    """
    recipe = engine.keys.recipe
    stages = pipeline.on(recipe.targets[one.target]).stages
    inputs = [path for stage in stages for path in engine.source_files(stage, one).values()]
    inputs += [path for path in recipe.files if not path.is_relative_to(builtin_folder())]
    inputs += [path for pack in recipe.packs for path in files_under(pack)]
    name = path_of(engine.out, one, "depfile").relative_to(engine.out).as_posix()
    written = engine.ledger.written[one.label]
    outputs = [engine.out / file for file in sorted(written) if file != name]
    content = depfile(
        [path.as_posix() for path in outputs],
        sorted({path.as_posix() for path in inputs}),
    ).encode()
    write_if_changed(engine.out / name, content, engine.unfinished)
    written[name] = sha256(content)


def remove_stale(out: Path, ledger: Ledger, current: Sequence[str]) -> None:
    """Remove the files of builds that the recipe no longer has."""
    for label in sorted({*ledger.written, *ledger.records} - {*current}):
        remove_written(out, ledger.written.pop(label, {}))
        ledger.records.pop(label, None)


def remove_written(out: Path, written: Mapping[str, str]) -> list[Path]:
    """Remove files that a build wrote and the folders that are empty then."""
    removed = []
    for name in sorted(written):
        path = out / name
        if path.is_file():
            path.unlink()
            removed.append(path)
        for folder in path.parents:
            if folder == out or not folder.is_dir() or any(folder.iterdir()):
                break
            folder.rmdir()
    return removed


def _tasks(engine: Engine, recipe: Recipe, pipeline: Pipeline) -> list[Task]:
    """Return the tasks in the order in which one thread should run them."""
    tasks = []
    for one in recipe.builds:
        own = pipeline.on(recipe.targets[one.target])
        tasks += [_stage_task(engine, own, stage, one) for stage in own.stages]
    for name in dict.fromkeys(one.target for one in recipe.builds):
        together = [one for one in recipe.builds if one.target == name]
        for gate in pipeline.gates:
            needed = [
                f"{one.label} {pipeline.maker[file]}" for one in together for file in gate.needs
            ]
            given = engine, gate, recipe.targets[name], together
            after = tuple(dict.fromkeys(needed))
            tasks.append(
                Task(
                    f"{name} {gate.name}", partial(_check, *given), after, partial(_passed, *given)
                )
            )
    return tasks


def _stage_task(engine: Engine, pipeline: Pipeline, stage: Stage, one: Build) -> Task:
    after = [f"{one.label} {pipeline.maker[file]}" for file in stage.reads]
    after += [f"{one.target} {gate.name}" for gate in pipeline.gates if stage.name in gate.before]
    return Task(
        f"{one.label} {stage.name}",
        partial(_run, engine, stage, one),
        tuple(dict.fromkeys(after)),
        partial(_find, engine, stage, one),
    )


def _run(engine: Engine, stage: Stage, one: Build) -> None:
    try:
        engine.run(stage, one)
    except UserError as error:
        error.where = error.where or one.label
        raise
    if any(name in FILES for name in stage.makes):
        engine.write(stage, one)


def _find(engine: Engine, stage: Stage, one: Build) -> bool:
    try:
        if not engine.find(stage, one):
            return False
    except LostContentError:
        raise
    except UserError:
        return False  # running it raises it again, in its place among all errors
    if any(name in FILES for name in stage.makes):
        engine.write(stage, one)
    return True


def _check(engine: Engine, gate: Gate, target: Target, together: Sequence[Build]) -> None:
    if _passed(engine, gate, target, together):
        return
    models = [
        ModelFiles(one.model, one.options, {name: engine.content(one, name) for name in gate.needs})
        for one in together
    ]
    # The table names modules, as for stages.
    cast("GateModule", import_module(gate.module)).check(target, models)
    engine.store.keep_result(_gate_key(engine, gate, target, together), {})


def _passed(engine: Engine, gate: Gate, target: Target, together: Sequence[Build]) -> bool:
    """Say whether a check of the same files has passed before."""
    return engine.store.result(_gate_key(engine, gate, target, together)) is not None


def _gate_key(engine: Engine, gate: Gate, target: Target, together: Sequence[Build]) -> str:
    files = [{name: engine.outputs[one.label][name] for name in gate.needs} for one in together]
    return engine.keys.gate_key(gate, target, together, files)
