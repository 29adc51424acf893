"""What a build would do now and why, and why each stage was made last time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from dlbuild.build.engine import Engine
from dlbuild.build.explain import outcome, reasons
from dlbuild.build.keys import key_of
from dlbuild.build.project import Build
from dlbuild.build.stage import Pipeline, Stage

State = Literal["up to date", "would run", "is in the store", "depends"]


@dataclass(frozen=True)
class Forecast:
    """One stage. reasons: why it would be made; empty if it is up to date.

    last: in which build it was made last, why, and what came of it; empty if never. number: of
    that build, or 0.
    """

    stage: str
    state: State
    reasons: tuple[str, ...]
    last: str
    number: int = 0


def forecast(engine: Engine, pipeline: Pipeline, build: Build) -> Iterator[Forecast]:
    """Yield what would happen to each stage of one build, running none."""
    for found in _states(engine, pipeline, build):
        record = engine.ledger.record(build.label, found.stage)
        yield replace(found, number=record.build if record is not None else 0)


def _states(engine: Engine, pipeline: Pipeline, build: Build) -> Iterator[Forecast]:
    unsure: dict[str, str] = {}
    for stage in pipeline.on(engine.keys.recipe.targets[build.target]).stages:
        last = last_time(engine, stage, build)
        waits = tuple(dict.fromkeys(unsure[name] for name in stage.reads if name in unsure))
        if waits:
            unsure |= dict.fromkeys(stage.makes, stage.name)
            yield Forecast(stage.name, "depends", tuple(f"on what {w} makes" for w in waits), last)
            continue
        known = engine.outputs.setdefault(build.label, {})
        parts = engine.keys.parts(stage, build, known, engine.sources(stage, build))
        record = engine.ledger.record(build.label, stage.name)
        made = engine.store.result(key_of(parts))
        if made is None:
            unsure |= dict.fromkeys(stage.makes, stage.name)
            yield Forecast(stage.name, "would run", reasons(record, parts, engine.store.get), last)
            continue
        known.update(made)
        if record is not None and record.parts == parts:
            yield Forecast(stage.name, "up to date", (), last)
        else:
            found = reasons(record, parts, engine.store.get)
            yield Forecast(stage.name, "is in the store", found, last)


def last_time(engine: Engine, stage: Stage, build: Build) -> str:
    """Say when and why a stage was made last, and what came of it."""
    record = engine.ledger.record(build.label, stage.name)
    if record is None:
        return ""
    how = "ran" if record.was_run else "was taken from the store"
    why = "; ".join(record.why)
    return f"{how} in build {record.build}: {why} -> {outcome(record)}"
