"""New numbers in a model, all else being as it was: what is left to do is known without the recipe.

A build that succeeded keeps its recipe as it was resolved, and what its keys were made of stands in
the ledger. If the snapshot shows that nothing but models changed, the stages are run with those:
no YAML, rule, template or code of dlbuild is looked at, since none of them changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import ModuleType

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.base.files import read, write_if_changed
from dlbuild.build import job, project
from dlbuild.build.builder import How, build
from dlbuild.build.engine import Engine, Finished
from dlbuild.build.fastpath import STATE_FOLDER, snapshot_path, write_whole
from dlbuild.build.keys import KeyMaker
from dlbuild.build.ledger import LEDGER, UNFINISHED, Ledger
from dlbuild.build.project import Build, Recipe
from dlbuild.build.remembered import with_contents
from dlbuild.build.stage import Gate, Pipeline, Stage
from dlbuild.ir.compact import pack, unpack


@dataclass(frozen=True)
class Order:
    """What a build was asked for.

    recipe: with the builds that were asked for alone. gates: the digest of each check's code.
    ledger: the digest of what the build left there.
    """

    recipe: Recipe
    gates: Mapping[str, str]
    ledger: str


class _OtherBuildError(UserError):
    """What is known is of another build than the one to be done."""


def keep_order(engine: Engine, pipeline: Pipeline, request: list[str]) -> None:
    """Keep what a build was asked for that has just succeeded and left a snapshot."""
    recipe, out = engine.keys.recipe, engine.out
    # Measurements are compared with the recipe in each build.
    if any(one.options.profile for one in recipe.builds):
        return
    gates = {gate.name: engine.keys.gate_code(gate) for gate in pipeline.gates}
    order = Order(recipe, gates, _ledger_digest(out))
    write_if_changed(_path(out, request), pack(order), out / STATE_FOLDER / UNFINISHED)


def retrain(
    out: Path,
    request: list[str],
    pipeline: Pipeline,
    changed: list[str],
    report: Callable[[Finished], None],
) -> Engine | None:
    """Build what follows from other numbers in models.

    Args:
        out: the build folder, with a snapshot of `request`.
        request: the command.
        pipeline: its stages.
        changed: the models that changed, nothing else having done so.
        report: called after each stage that needed work.

    Returns:
        None if the whole build has to be done, which then finds what was done here.
    """
    kept = read(_path(out, request))
    if kept is None:
        return None
    try:
        order = unpack(kept, Order, _kinds())
    except UserError:
        return None
    recipe = order.recipe
    if not {*changed} <= {model.source.as_posix() for model in recipe.models.values()}:
        return None

    def keys(ledger: Ledger) -> KeyMaker:
        if _ledger_digest(out) != order.ledger:
            raise _OtherBuildError("another command has built here")
        records = {
            label: {stage: record.parts for stage, record in stages.items()}
            for label, stages in ledger.records.items()
        }
        return _RememberedKeys(recipe, str, parts_before=records, gates=order.gates)

    how = How(out, keys=keys)
    try:
        engine = build(recipe, pipeline, how, str, report)
        _leave_snapshot(engine, request)
    except (UserError, ExceptionGroup, KeyError, OSError):
        return None
    keep_order(engine, pipeline, request)
    return engine


@dataclass(frozen=True)
class _RememberedKeys(KeyMaker):
    """Keys whose parts are those of the last build, but for contents that changed."""

    parts_before: Mapping[str, Mapping[str, Mapping[str, str]]] = None  # type: ignore[assignment]
    gates: Mapping[str, str] = None  # type: ignore[assignment]

    def parts(
        self, stage: Stage, build: Build, inputs: Mapping[str, str], sources: Mapping[str, str]
    ) -> dict[str, str]:
        before = self.parts_before[build.label][stage.name]
        now = {f"source {name}": value for name, value in sources.items()}
        # Of a file that the model did not have, the snapshot would not know.
        if now.keys() != {name for name in before if name.startswith("source ")}:
            raise _OtherBuildError("the model consists of other files now")
        return {**before, **{f"input {name}": inputs[name] for name in stage.reads}, **now}

    def gate_code(self, gate: Gate) -> str:
        return self.gates[gate.name]


def _leave_snapshot(engine: Engine, request: list[str]) -> None:
    """Let the next build see that it has nothing to do, unless an input changed meanwhile.

    Raises:
        OSError: the disk does not allow it.
    """
    recipe, out = engine.keys.recipe, engine.out
    digests = {
        (out / name).as_posix(): digest
        for one in recipe.builds
        for name, digest in engine.ledger.written[one.label].items()
    }
    for one in recipe.builds:
        source = recipe.models[one.model].source
        record = engine.ledger.record(one.label, "parse")
        assert record is not None
        digests[source.as_posix()] = record.parts[f"source {source.name}"]
    path = snapshot_path(out.as_posix(), request)
    now = with_contents(Path(path).read_text(encoding="utf-8"), digests)
    if now:
        write_whole(path, now)


def _ledger_digest(out: Path) -> str:
    return sha256(read(out / STATE_FOLDER / LEDGER) or b"")


def _path(out: Path, request: list[str]) -> Path:
    return Path(f"{snapshot_path(out.as_posix(), request)}.order")


def _kinds() -> tuple[type, ...]:
    """Return every dataclass that a resolved recipe may hold."""
    return tuple(dict.fromkeys([*_dataclasses(project, set()), *_dataclasses(job, set())]))


def _dataclasses(module: ModuleType, seen: set[str]) -> Iterator[type]:
    """Yield the dataclasses that a module has, and those of the modules that they are from."""
    seen.add(module.__name__)
    for kind in vars(module).values():
        if isinstance(kind, type) and is_dataclass(kind):
            yield kind
            if kind.__module__ not in seen:
                yield from _dataclasses(sys.modules[kind.__module__], seen)
