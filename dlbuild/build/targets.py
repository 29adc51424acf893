"""Targets: built-in and pack files, those of dlbuild.yaml, and `extends` resolved."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dlbuild.base.paths import builtin_folder
from dlbuild.base.spelling import nearest, suggestion
from dlbuild.base.units import COST, RATE, SIZE, TIME, read_quantity, whole
from dlbuild.base.yamlsrc import (
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
from dlbuild.build.schema import OPTION_KEYS, TARGET
from dlbuild.ir.target import Board, Cluster, Dma, Memory, Rate, Registers, Target, Toolchain

MOST_ALIGNED_BYTES = 1 << 28
"""What an ELF object of gcc may ask for."""


@dataclass(frozen=True)
class TargetTable:
    """One target as YAML says it. origin: the file that has it. folder: what paths start from."""

    entries: Table
    origin: str
    folder: Path = Path()


@dataclass(frozen=True)
class ResolvedTarget:
    """A target and those of its keys that are options: `optimize`, `requantize`, `schedule`."""

    target: Target
    options: Mapping[str, Node]


def target_files(folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the target files of the built-in folder and the packs; earlier folders win."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted((folder / "rules" / "targets").glob("*.yaml")):
            found.setdefault(path.stem, path)
    return tuple(found[name] for name in sorted(found))


def read_target_files(
    files: tuple[Path, ...], name_of: Callable[[Path], str]
) -> Mapping[str, TargetTable]:
    """Read and check target files. name_of: how errors cite a file."""
    found = {}
    for path in files:
        node = read_file(path, name_of(path))
        if node is not None:
            owner = f"target '{path.stem}'"
            TARGET.check(node, owner)
            found[path.stem] = TargetTable(table(node, owner), name_of(path), path.parent)
    return found


@dataclass(frozen=True)
class TargetBook:
    """All targets by name: `own` of dlbuild.yaml, and `built_in` ones (packs included)."""

    own: Mapping[str, TargetTable]
    built_in: Mapping[str, TargetTable]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a build may ask for."""
        return tuple(sorted({*self.own, *self.built_in}))

    def resolve(self, name: str) -> ResolvedTarget:
        """Return a target with everything that it extends filled in.

        Raises:
            UserError: `extends` names nothing, or leads back to itself.
        """
        resolved = self._resolve(name, (), is_own=name in self.own)
        features = tuple(sorted(set(resolved.target.features)))
        return ResolvedTarget(
            replace(resolved.target, name=name, features=features), resolved.options
        )

    def _resolve(
        self, name: str, path: tuple[tuple[str, bool], ...], *, is_own: bool
    ) -> ResolvedTarget:
        said = (self.own if is_own else self.built_in)[name]
        entries = said.entries
        parent = entries.get("extends")
        if parent is None:
            return _apply(said, ResolvedTarget(Target(name), {}))
        wanted = word(parent, "'extends'")
        # A target of dlbuild.yaml may extend the built-in one of its own name.
        to_own = is_own and wanted != name and wanted in self.own
        if not to_own and (wanted not in self.built_in or (wanted == name and not is_own)):
            known = {*(self.own if is_own else ()), *self.built_in} - {name}
            raise parent.error(f"there is no target '{wanted}'", fix=suggestion(wanted, known))
        path = (*path, (name, is_own))
        if (wanted, to_own) in path:
            chain = " -> ".join((*(step for step, _ in path), wanted))
            raise parent.error(f"'extends' leads back: {chain}")
        return _apply(said, self._resolve(wanted, path, is_own=to_own))


def _apply(said: TargetTable, base: ResolvedTarget) -> ResolvedTarget:
    """Lay the keys of one table over what it extends."""
    target, entries = base.target, said.entries
    options = {k: node for k, node in entries.values.items() if k in OPTION_KEYS}
    for key in entries:
        node = entries[key]
        match key:
            case "memories":
                target = replace(target, memories=_memories(node, target.memories))
            case "stack":
                target = replace(target, stack_bytes=whole(word(node, key), SIZE))
            case "features":
                target = replace(target, features=_words(node))
            case "cycles":
                costs = table(node, key)
                ours = {d: read_quantity(word(costs[d], d), COST) for d in costs}
                merged = {**target.cycles, **ours}
                target = replace(target, cycles={d: merged[d] for d in sorted(merged)})
            case "toolchain":
                target = replace(target, toolchain=_toolchain(table(node, key), target.toolchain))
            case "board":
                board = _board(table(node, key), target.board or Board(), said.folder)
                target = replace(target, board=board)
            case "registers":
                target = replace(target, registers=_registers(node, target.registers))
            case "runner":
                target = replace(target, runner=word(node, key))
            case _:
                target = _with_devices(target, key, node)
    return ResolvedTarget(target, {**base.options, **options})


def _with_devices(target: Target, key: str, node: Node) -> Target:
    """Lay what computes or copies over a target; other keys are options, or are done."""
    if key == "kernels":
        return replace(target, kernels=_kernels(table(node, key), target.kernels))
    if key == "dma":
        return replace(target, dma=_dma(table(node, key), target.dma or Dma()))
    if key == "resources":
        if target.clusters:
            raise node.error(
                "a target has 'resources' or 'clusters'", fix="give each cluster its resources"
            )
        return replace(target, resources=_resources(table(node, key), node))
    if key == "clusters":
        return _with_clusters(target, node)
    if key == "parameters":
        return replace(target, parameters=_parameters(word(node, key)))
    return target


def _parameters(said: str) -> Literal["shared", "replicated"]:
    return "replicated" if said == "replicated" else "shared"


def _with_clusters(target: Target, node: Node) -> Target:
    """Lay clusters over a target; its resources are then those of all of them."""
    if target.resources != Target("").resources:
        raise node.error(
            "a target has 'resources' or 'clusters'", fix="give each cluster its resources"
        )
    found: dict[str, Cluster] = {}
    kinds: dict[str, None] = {}
    for item in items(node, "'clusters'"):
        entries = table(item, "a cluster")
        name = word(entries["name"], "'name'")
        if name in found:
            raise entries["name"].error(f"two clusters are called '{name}'", fix="rename one")
        resources = entries.get("resources")
        kind, count = ("cores", 1)
        if resources is not None:
            kind, count = _resources(table(resources, "'resources'"), resources)
        kinds[kind] = None
        memories = entries.get("memories")
        found[name] = Cluster(name, count, _memories(memories, ()) if memories else ())
    total = sum(cluster.count for cluster in found.values())
    if len(found) == 1 or len(kinds) > 1 or "pes" in kinds:
        raise node.error(
            "clusters are several, all of cores or all of threads",
            fix="set resources in place of one cluster, or of clusters of pes",
        )
    if total > MOST_CORES:
        raise node.error(f"there are at most {MOST_CORES} cores in all", fix="use fewer")
    if not found:
        return target
    return replace(target, clusters=tuple(found.values()), resources=(next(iter(kinds)), total))


def _alignment(node: Node) -> int:
    size_bytes = whole(word(node, "align"), SIZE)
    if size_bytes.bit_count() != 1:
        raise node.error(f"'align' must be a power of two, this is {size_bytes} B", fix="write 4 B")
    if size_bytes > MOST_ALIGNED_BYTES:
        raise node.error("'align' is more than objects can ask for", fix="write 256 MiB or less")
    return size_bytes


def _words(node: Node) -> tuple[str, ...]:
    return tuple(word(item, "a list item") for item in items(node, "a list"))


def _memories(node: Node, base: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """Override memories of the same name where they stand.

    A new one is as near as it is written: before the next one that the base has, else at the end.
    """
    entries = table(node, "memories")
    ours = dict(zip(entries, (_memory(name, entries[name]) for name in entries), strict=True))
    kept = {memory.name: memory for memory in base}
    for name in ours:
        if name not in kept and any(memory.holds for memory in base):
            _check_holds(name, entries[name], tuple(kept))
    merged = {**kept, **{name: make(kept.get(name)) for name, make in ours.items()}}
    order = list(kept)
    for place, name in enumerate(ours):
        if name not in kept:
            after = next((n for n in list(ours)[place:] if n in kept), None)
            order.insert(order.index(after) if after else len(order), name)
    return tuple(merged[name] for name in order)


def _check_holds(name: str, node: Node, known: Sequence[str]) -> None:
    """Refuse a further memory that does not say what it holds: its size would bound nothing."""
    if isinstance(node, Scalar) or "holds" not in table(node, name):
        near = nearest(name, known)
        raise node.error(
            f"memory '{name}' does not say what it holds",
            why=f"the target that this one extends has {' and '.join(known)}",
            fix=(f"write {near} if it is that; else " if near else "")
            + f"write {name}: {{size: ..., holds: [arena]}}, or [weights] or [tiles]",
        )


def _memory(name: str, node: Node) -> Callable[[Memory | None], Memory]:
    """Return what lays this entry over the memory of the same name."""

    def lay(base: Memory | None) -> Memory:
        memory = base or Memory(name)
        if isinstance(node, Scalar):
            return replace(memory, size_bytes=whole(node.text, SIZE))
        entries = table(node, name)
        for key in entries:
            value = entries[key]
            match key:
                case "size":
                    memory = replace(memory, size_bytes=whole(word(value, key), SIZE))
                case "align":
                    memory = replace(memory, align_bytes=_alignment(value))
                case "section":
                    memory = replace(memory, section=word(value, key))
                case "holds":
                    memory = replace(memory, holds=_words(value))
                case "copy":
                    memory = _copied(memory, table(value, key))
                case _:
                    pass  # refused by the key table
        return memory

    return lay


def _copied(memory: Memory, entries: Table) -> Memory:
    """Lay what a copy into a memory costs over it."""
    if "setup" in entries:
        cycles = whole(word(entries["setup"], "setup"), TIME)
        memory = replace(memory, copy_setup_cycles=cycles)
    if "rate" in entries:
        rate = read_quantity(word(entries["rate"], "rate"), RATE)
        memory = replace(memory, copy_bytes_per_cycle=rate)
    if "objective" in entries:
        memory = replace(memory, copy_objective=word(entries["objective"], "objective"))
        if memory.copy_objective == "time" and not memory.copy_bytes_per_cycle:
            raise entries["objective"].error(
                f"nobody knows how long a copy into '{memory.name}' takes",
                fix="say rate too, such as rate: 4 B/cycle, or objective: traffic",
            )
    return memory


MOST_CORES = 16
"""So many counters of progress has the port."""


def _resources(entries: Table, node: Node) -> tuple[str, int]:
    if len(tuple(entries)) != 1:
        raise node.error(
            "'resources' is one of cores, threads and pes", fix="write resources: {cores: 2}"
        )
    (kind,) = entries
    count = integer(entries[kind], kind, 1)
    if count > MOST_CORES:
        raise entries[kind].error(f"there are at most {MOST_CORES} {kind}", fix="use fewer")
    return kind, count


def _dma(entries: Table, base: Dma) -> Dma:
    if "align" in entries:
        base = replace(base, align_bytes=whole(word(entries["align"], "align"), SIZE))
    return base


def _kernels(entries: Table, base: Mapping[str, Rate]) -> Mapping[str, Rate]:
    """The rate of each kernel replaces that of the base."""
    merged = {**base, **{name: _rate(table(entries[name], name)) for name in entries}}
    return {name: merged[name] for name in sorted(merged)}


def _rate(entries: Table) -> Rate:
    return Rate(**{key: number(entries[key], key) for key in entries})


def _registers(node: Node, base: Registers) -> Registers:
    """Each number replaces that of the base."""
    entries = table(node, "registers")
    found = {key: int(word(entries[key], key)) for key in entries}
    return Registers(
        integers=found.get("integers", base.integers),
        floats=found.get("floats", base.floats),
        lanes=found.get("lanes", base.lanes),
    )


def _toolchain(entries: Table, base: Toolchain) -> Toolchain:
    """Commands replace those of the base; flags come after its flags."""
    words = {key: word(entries[key], key) for key in ("cc", "ar", "size") if key in entries}
    flags = entries.get("cflags")
    more = _words(flags) if flags is not None else ()
    return Toolchain(
        cc=words.get("cc", base.cc),
        ar=words.get("ar", base.ar),
        size=words.get("size", base.size),
        cflags=(*base.cflags, *more),
    )


def _board(entries: Table, base: Board, folder: Path) -> Board:
    """Each key replaces that of the base; paths are relative to the file that names them."""
    for key in entries:
        node = entries[key]
        match key:
            case "script":
                base = replace(base, script=_file(node, folder))
            case "sources":
                files = tuple(_file(item, folder) for item in items(node, key))
                base = replace(base, sources=files)
            case _:
                base = replace(base, ldflags=_words(node))
    return base


def _file(node: Node, folder: Path) -> str:
    """Return the path of a file beside the one that names it, or else of dlbuild's own."""
    name = word(node, "a file")
    # Without `..`: the text is shown.
    near = Path(os.path.normpath(folder / name))
    for path in (near, builtin_folder() / "boards" / name):
        if path.is_file():
            return path.as_posix()
    raise node.error(f"there is no file '{near.as_posix()}'")
