"""Runs stages: finds each result by its key, or makes it, stores it and writes its files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from dlbuild.base.digest import digest, sha256
from dlbuild.base.errors import UserError
from dlbuild.base.files import write_if_changed
from dlbuild.build.cache import Store
from dlbuild.build.explain import reasons
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.job import Job, Run
from dlbuild.build.keys import KeyMaker, key_of, measurements_of
from dlbuild.build.ledger import UNFINISHED, Ledger, Record
from dlbuild.build.project import Build
from dlbuild.build.stage import FILES, Stage
from dlbuild.stages.initializers import Unreadable, sketch_of

_ATTEMPTS = 3


class LostContentError(UserError):
    """Something deleted contents of the store while a build used them."""


class StageModule(Protocol):
    """A module that a stage names. `files` is asked of a stage that sees the model's source."""

    run: Run

    def files(self, source: Path) -> Mapping[str, Path]:
        """Return the external files of a model, by names without a path."""


class AgainModule(Protocol):
    """A module that a stage names for `again`."""

    def run(self, job: Job, before: Mapping[str, bytes]) -> Mapping[str, bytes] | None:
        """Return the files of the stage, or None."""


@dataclass(frozen=True)
class Finished:
    """What is told of a stage that needed work. was_run: false if the store had its result."""

    label: str
    stage: str
    seconds: float
    was_run: bool


@dataclass
class Engine:
    """One build of a recipe.

    out: the build folder. report: called after each stage that needed work.
    """

    keys: KeyMaker
    store: Store
    ledger: Ledger
    out: Path
    report: Callable[[Finished], None]
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    rewritten: list[Path] = field(default_factory=list)
    """Files whose content was not what it had to be, for whatever reason."""
    _external: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def unfinished(self) -> Path:
        """The folder for files that are not yet whole."""
        return self.out / STATE_FOLDER / UNFINISHED

    def run(self, stage: Stage, build: Build) -> None:
        """Bring the files of one stage of one build up to date; its inputs are so already."""
        began = time.monotonic()
        for _ in range(_ATTEMPTS):
            sources = self.sources(stage, build)
            parts = self.keys.parts(stage, build, self._digests(build), sources)
            key = key_of(parts)
            with self._lock(key):
                found = self._stored(stage, key)
                made = found or self._make(stage, build, parts)
                # A source that was edited while the stage read it: the result is of no version.
                if sources != self.sources(stage, build):
                    continue
                if not found:
                    self.store.keep_result(key, made)
            break
        else:
            raise UserError("its files change while they are read", where=build.label)
        self.outputs.setdefault(build.label, {}).update(made)
        self._record(stage, build, parts, made, time.monotonic() - began, was_run=not found)

    def find(self, stage: Stage, build: Build) -> bool:
        """Take the files of a stage from the store; say whether it had them, else do nothing."""
        began = time.monotonic()
        sources = self.sources(stage, build)
        parts = self.keys.parts(stage, build, self._digests(build), sources)
        found = self._stored(stage, key_of(parts))
        if found is None or sources != self.sources(stage, build):
            return False
        self.outputs.setdefault(build.label, {}).update(found)
        self._record(stage, build, parts, found, time.monotonic() - began, was_run=False)
        return True

    def write(self, stage: Stage, build: Build) -> None:
        """Write the files of a stage into the build folder, if their content differs."""
        written = self.ledger.written.setdefault(build.label, {})
        for name in stage.makes:
            if name not in FILES:
                continue
            path = path_of(self.out, build, name)
            content = self.content(build, name)
            if content:
                if write_if_changed(path, content, self.unfinished):
                    self.rewritten.append(path)
                written[path.relative_to(self.out).as_posix()] = self.outputs[build.label][name]
            elif written.pop(path.relative_to(self.out).as_posix(), None):
                path.unlink(missing_ok=True)

    def content(self, build: Build, name: str) -> bytes:
        """Return the content of a file that a stage of this build made."""
        content = self.store.get(self.outputs[build.label][name])
        if content is None:
            raise LostContentError(
                f"the store lost '{name}' during the build",
                where=build.label,
                why="the disk is full, read-only or damaged",
                fix="free some space and run again",
            )
        return content

    def sources(self, stage: Stage, build: Build) -> Mapping[str, str]:
        """Return digests of the model's own files, if the stage sees them."""
        return {
            name: sha256(_content(path)) for name, path in self.source_files(stage, build).items()
        }

    def source_files(self, stage: Stage, build: Build) -> Mapping[str, Path]:
        """Return the files of the user that a stage sees, by names without a path.

        Which external files a model has is kept in the store, so that the answer needs no parser.
        """
        measured = measurements_of(build) if stage.measurements else None
        if measured is not None and measured.is_file():
            return {measured.name: measured}
        if "source" not in stage.model:
            return {}
        model = self.keys.recipe.models[build.model]
        source = model.source
        known = self._external_files(stage, source)
        found = {source.name: source, **{name: source.parent / name for name in known}}
        if "samples" in stage.model and model.samples is not None:
            found[model.samples.name] = model.samples
        return found

    def _external_files(self, stage: Stage, source: Path) -> Collection[str]:
        """Return the names of a model's external files, from its folder on."""
        content = _content(source)
        named = sha256(content)
        if named not in self._external:
            try:
                # Other numbers in the file itself are the same model here.
                key = digest({"external files of the structure": sketch_of(content).structure})
            except Unreadable:
                key = digest({"external files of": named})
            # Names of files, each with the digest of nothing.
            known = self.store.result(key)
            if known is None:
                nothing = self.store.put(b"")
                known = dict.fromkeys(_module(stage).files(source), nothing)
                self.store.keep_result(key, known)
            self._external[named] = tuple(known)
        return self._external[named]

    def _digests(self, build: Build) -> Mapping[str, str]:
        return self.outputs.get(build.label, {})

    def _stored(self, stage: Stage, key: str) -> Mapping[str, str] | None:
        """Return a stored result if it is whole and each content is there undamaged."""
        found = self.store.result(key)
        if found is None or set(found) != set(stage.makes):
            return None
        return found if all(self.store.get(d) is not None for d in found.values()) else None

    def _make(self, stage: Stage, build: Build, parts: Mapping[str, str]) -> Mapping[str, str]:
        inputs = {name: self.content(build, name) for name in stage.reads}
        job = Job(self.keys.settings(stage, build), inputs)
        made = self._made_again(stage, build, parts, job) or _module(stage).run(job)
        assert set(made) == set(stage.makes), f"{stage.name} made {sorted(made)}"
        return {name: self.store.put(made[name]) for name in sorted(made)}

    def _made_again(
        self, stage: Stage, build: Build, parts: Mapping[str, str], job: Job
    ) -> Mapping[str, bytes] | None:
        """Make what the stage makes from what it made last, if only its sources are others."""
        before = self.ledger.record(build.label, stage.name)
        if not stage.again or before is None or set(before.outputs) != set(stage.makes):
            return None
        if _but_sources(before.parts) != _but_sources(parts):
            return None
        contents = {name: self.store.get(found) for name, found in before.outputs.items()}
        whole = {name: content for name, content in contents.items() if content is not None}
        if len(whole) != len(contents):
            return None
        return cast("AgainModule", import_module(stage.again)).run(job, whole)

    def _record(  # noqa: PLR0913 - all that a record is made of
        self,
        stage: Stage,
        build: Build,
        parts: Mapping[str, str],
        made: Mapping[str, str],
        seconds: float,
        *,
        was_run: bool,
    ) -> None:
        before = self.ledger.record(build.label, stage.name)
        if before is not None and before.parts == parts and before.outputs == made and not was_run:
            return
        then = before.outputs if before else {}
        changed = tuple(name for name in made if made[name] != then.get(name))
        record = Record(
            parts=parts,
            outputs=made,
            why=reasons(before, parts, self.store.get),
            changed=changed,
            build=self.ledger.number,
            was_run=was_run,
        )
        self.ledger.set_record(build.label, stage.name, record)
        with self._guard:  # one line at a time
            self.report(Finished(build.label, stage.name, seconds, was_run))

    def _lock(self, key: str) -> threading.Lock:
        """Two builds that share a stage, such as parse for two targets, make it once."""
        with self._guard:
            return self._locks.setdefault(key, threading.Lock())


def path_of(out: Path, build: Build, name: str) -> Path:
    """Return where a file of a build is written."""
    return out / build.target / build.model / FILES[name].format(model=build.model)


def _module(stage: Stage) -> StageModule:
    # The table names modules, so that only stages that have to run are imported.
    return cast("StageModule", import_module(stage.module))


def _but_sources(parts: Mapping[str, str]) -> Mapping[str, str]:
    return {name: part for name, part in parts.items() if not name.startswith("source ")}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", where=path.as_posix()) from None
