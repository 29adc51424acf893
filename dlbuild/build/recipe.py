"""dlbuild.yaml, read and resolved: models, targets, and the builds with all their options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.base.spelling import nearest, suggestion
from dlbuild.base.yamlsrc import (
    Items,
    Node,
    Scalar,
    Table,
    integer,
    items,
    number,
    read_file,
    table,
    word,
)
from dlbuild.build.features import check_features
from dlbuild.build.job import Tolerance
from dlbuild.build.options import options_with, read_override, resized
from dlbuild.build.project import Build, Model, Recipe
from dlbuild.build.schema import INCLUDED, OPTION_KEYS, PROJECT
from dlbuild.build.targets import TargetBook, TargetTable, read_target_files, target_files
from dlbuild.ir.batch import Batch
from dlbuild.ir.target import Options

PROJECT_FILE = "dlbuild.yaml"
_SECTIONS = ("models", "targets", "builds", "packs")


@dataclass
class _Sections:
    """What the files say, merged, each entry still a node with the folder of its paths."""

    models: dict[str, tuple[Scalar, Table, Path]]
    targets: dict[str, tuple[Scalar, Table]]
    builds: list[Table]
    packs: list[tuple[Scalar, Path]]
    files: list[Path]


def read_recipe(file: Path = Path(PROJECT_FILE), overrides: Sequence[str] = ()) -> Recipe:
    """Read dlbuild.yaml and what it includes.

    Args:
        file: the file; paths in it are relative to its folder.
        overrides: `key=value` of the command line; they win over every build's options.

    Raises:
        UserError: with file, line and caret.
    """
    if not file.is_file():
        raise UserError(
            "there is no such file",
            where=file.as_posix(),
            fix="run dlbuild where it is, or name the folder with -C DIR",
            exit_code=2,
        )
    found = _Sections({}, {}, [], [], [])
    _read_sections(file, found, ())
    packs = tuple(_pack(node, folder) for node, folder in found.packs)
    files = target_files((*packs, builtin_folder()))
    built_in = read_target_files(files, _cited)
    own = {
        name: TargetTable(entries, key.source.name, Path(key.source.name).parent)
        for name, (key, entries) in found.targets.items()
    }
    check_features((*own.values(), *built_in.values()), packs)
    book = TargetBook(own, built_in)
    extra = [read_override(text) for text in overrides]
    models = {name: _model(name, node, folder) for name, (_, node, folder) in found.models.items()}
    resolver = _Resolver(found, book, extra)
    builds = resolver.builds()
    names = tuple(dict.fromkeys((*own, *(build.target for build in builds))))
    targets = {name: book.resolve(name).target for name in names}
    return Recipe(
        models=models,
        targets=resized(targets, extra),
        builds=builds,
        packs=packs,
        files=(*found.files, *files),
    )


def _cited(path: Path) -> str:
    """Cite built-in files from their folder on, so that no message depends on the installation."""
    base = builtin_folder()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def _read_sections(file: Path, found: _Sections, path: tuple[Path, ...]) -> None:
    """Read one file and, before it, those that it includes."""
    name = file.as_posix()
    node = read_file(file, name)
    if node is None:
        raise UserError("the file is empty", where=name, fix="begin with version: 1", exit_code=2)
    (INCLUDED if path else PROJECT).check(node, name)
    entries = table(node, name)
    found.files.append(file)
    for item in _items(entries.get("include")):
        included = file.parent / word(item, "'include'")
        if included in (*path, file):
            raise item.error("this file includes itself")
        if not included.is_file():
            raise item.error(f"there is no file '{included.as_posix()}'")
        _read_sections(included, found, (*path, file))
    for key, mark, value in _named(entries.get("models")):
        if key in found.models:
            raise _twice("model", mark, found.models[key][0])
        found.models[key] = (mark, value, file.parent)
    for key, mark, value in _named(entries.get("targets")):
        if key in found.targets:
            raise _twice("target", mark, found.targets[key][0])
        found.targets[key] = (mark, value)
    found.builds += [table(item, "a build") for item in _items(entries.get("builds"))]
    found.packs += [
        (item, file.parent) for item in _items(entries.get("packs")) if isinstance(item, Scalar)
    ]


def _twice(noun: str, mark: Scalar, first: Scalar) -> UserError:
    return mark.error(f"the {noun} '{mark.text}' is given twice", why=f"first at {first.where}")


def _items(node: Node | None) -> Items | tuple[()]:
    return () if node is None else items(node, "a list")


def _asked(node: Node, what: str, known: Sequence[str]) -> list[tuple[str, Node]]:
    """Return the names that a build asks for, one or a list of them, and where each stands."""
    several = node.items if isinstance(node, Items) else (node,)
    names = [(word(each, f"'{what}'"), each) for each in several]
    for name, each in names:
        if name not in known:
            raise each.error(f"there is no {what} '{name}'", fix=suggestion(name, known))
    return names


def _named(node: Node | None) -> list[tuple[str, Scalar, Table]]:
    if node is None:
        return []
    entries = table(node, "a table")
    return [(name, mark, table(entries[name], name)) for name, mark in entries.keys.items()]


def _pack(node: Scalar, folder: Path) -> Path:
    path = folder / node.text
    if not (path / "rules").is_dir():
        what = "has no folder 'rules'" if path.is_dir() else "does not exist"
        raise node.error(f"the pack '{path.as_posix()}' {what}")
    return path


def _like(path: Path) -> str:
    """Suggest the file beside a missing one that has almost its name."""
    folder = path.parent
    names = [other.name for other in folder.iterdir()] if folder.is_dir() else []
    found = nearest(path.name, [name for name in names if name.endswith(path.suffix)])
    return f"did you mean '{(folder / found).as_posix()}'?" if found else ""


def _model(name: str, entries: Table, folder: Path) -> Model:
    source = entries["source"]
    path = folder / word(source, "'source'")
    if not path.is_file():
        raise source.error(f"there is no file '{path.as_posix()}'", fix=_like(path))
    samples = entries.get("samples")
    samples_path = folder / word(samples, "'samples'") if samples is not None else None
    if samples is not None and samples_path is not None and not samples_path.is_file():
        raise samples.error(
            f"there is no file '{samples_path.as_posix()}'", fix=_like(samples_path)
        )
    shapes = entries.get("shapes")
    bound = table(shapes, "'shapes'") if shapes is not None else None
    return Model(
        name=name,
        source=path,
        shapes={
            tensor: tuple(integer(size, tensor) for size in items(bound[tensor], tensor))
            for tensor in bound or ()
            if bound is not None
        },
        samples=samples_path,
        tolerance=_tolerance(entries.get("tolerance")),
        state=_state(entries.get("state")),
        batch=_batch(entries.get("batch")),
    )


def _state(node: Node | None) -> tuple[tuple[str, str], ...]:
    """Return each output with the input that it is carried to."""
    if node is None:
        return ()
    entries = table(node, "'state'")
    found: dict[str, str] = {}
    for output, mark in entries.keys.items():
        name = word(entries[output], f"'{output}'")
        if name in found.values():
            raise mark.error(f"two outputs are carried to the input '{name}'")
        found[output] = name
    return tuple(found.items())


def _batch(node: Node | None) -> Batch | None:
    if node is None:
        return None
    entries = table(node, "'batch'")
    for key in ("inputs", "parts"):
        if key not in entries:
            raise node.error(f"'batch' needs '{key}'")
    inputs = tuple(word(item, "an input") for item in items(entries["inputs"], "'inputs'"))
    if not inputs:
        raise entries["inputs"].error("'inputs' names no input")
    return Batch(inputs, integer(entries["parts"], "'parts'"))


def _tolerance(node: Node | None) -> Tolerance:
    if node is None:
        return Tolerance()
    entries = table(node, "'tolerance'")
    rtol, atol, lsb = entries.get("rtol"), entries.get("atol"), entries.get("lsb")
    return Tolerance(
        None if rtol is None else number(rtol, "'rtol'"),
        None if atol is None else number(atol, "'atol'"),
        None if lsb is None else integer(lsb, "'lsb'"),
    )


@dataclass(frozen=True)
class _Resolver:
    """Turns `builds` into builds. overrides: options that win over all."""

    found: _Sections
    book: TargetBook
    overrides: Sequence[tuple[str, Node]]

    def builds(self) -> tuple[Build, ...]:
        """Return all builds in the order of the file; without `builds`, every model and target."""
        if not self.found.models:
            raise UserError("no model is given", where=PROJECT_FILE, fix="add models:", exit_code=2)
        made: dict[tuple[str, str], tuple[Build, Node]] = {}
        for entry in self.found.builds:
            for build, node in self._of_entry(entry):
                if (build.model, build.target) in made:
                    first = made[build.model, build.target][1]
                    raise node.error(f"{build.label} is built twice", why=f"first at {first.where}")
                made[build.model, build.target] = (build, node)
        if self.found.builds:
            return tuple(build for build, _ in made.values())
        targets = tuple(self.found.targets) or ("host",)
        return tuple(self._build(m, t, None) for m in self.found.models for t in targets)

    def _of_entry(self, entry: Table) -> list[tuple[Build, Node]]:
        models = _asked(entry["model"], "model", tuple(self.found.models))
        targets: list[tuple[str, Node]] = [
            (name, entry) for name in tuple(self.found.targets) or ("host",)
        ]
        if asked := entry.get("target"):
            targets = _asked(asked, "target", self.book.names)
        return [
            (self._build(model, target, entry), at if len(models) == 1 else node)
            for model, node in models
            for target, at in targets
        ]

    def _build(self, model: str, target: str, entry: Table | None) -> Build:
        resolved = self.book.resolve(target)
        exact = "fpu" in resolved.target.features
        options = replace(Options(), requantize="exact" if exact else "fixed")
        model_table = self.found.models[model][1]
        levels: list[Mapping[str, Node]] = [resolved.options, model_table.values]
        levels += [entry.values] if entry is not None else []
        for level in (*levels, dict(self.overrides)):
            for key, node in level.items():
                if key in OPTION_KEYS:
                    options = options_with(options, key, node)
        return Build(model, target, options)
