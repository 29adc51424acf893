"""Options of one build: from the nodes of dlbuild.yaml and from `-D key=value`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlbuild.base.spelling import suggestion
from dlbuild.base.units import SIZE, whole
from dlbuild.base.yamlsrc import Node, Scalar, Source, Table, flag, integer, number, table, word
from dlbuild.build.kinds import Quantity
from dlbuild.build.schema import BUILD, OPTION_KEYS
from dlbuild.ir.target import Memory, Options, Target

MEMORY = "memory."
"""In front of the name of a memory, whose size is overridden."""


def read_override(text: str, option: str = "-D") -> tuple[str, Node]:
    """Read `key=value` that an option of the command line gives.

    Raises:
        UserError: no value, an unknown option, or a value it cannot have.
    """
    name, equals, value = text.partition("=")
    source = Source(option, (text,))
    key = Scalar(source, 1, 1, name)
    if not equals:
        raise key.error(f"'{text}' gives no value", fix=f"write {option} {name}=VALUE")
    node = Scalar(source, 1, len(name) + 2, value)
    if name.startswith(MEMORY):
        Quantity(SIZE).check(node, f"'{name}'")
        return name, node
    if name not in OPTION_KEYS:
        known = [*OPTION_KEYS, f"{MEMORY}sram"]
        raise key.error(f"a build has no option '{name}'", fix=suggestion(name, known))
    BUILD.check(
        Table(source, 1, 1, {"model": Scalar(source, 1, 1, "m"), name: node}, {name: key}), option
    )
    return name, node


def resized(
    targets: Mapping[str, Target], overrides: Iterable[tuple[str, Node]]
) -> Mapping[str, Target]:
    """Return targets with the sizes of memories that overrides give.

    Raises:
        UserError: none of them has a memory of that name.
    """
    for key, node in overrides:
        name = key.removeprefix(MEMORY)
        if name == key:
            continue
        known = {each for target in targets.values() for each in memory_names(target)}
        if name not in known:
            at = Scalar(node.source, 1, 1 + len(MEMORY), name)
            raise at.error(f"no target has a memory '{name}'", fix=suggestion(name, known))
        size = whole(word(node, name), SIZE)
        targets = {each: _with_size(target, name, size) for each, target in targets.items()}
    return targets


def memory_names(target: Target) -> tuple[str, ...]:
    """Return what `memory.` may stand in front of: memories of a target and of its clusters.

    A name stands for all memories that have it, `CLUSTER.NAME` for that of one cluster.
    """
    of_clusters = [(c.name, memory.name) for c in target.clusters for memory in c.memories]
    names = [memory.name for memory in target.memories]
    names += [name for _, name in of_clusters]
    names += [f"{cluster}.{name}" for cluster, name in of_clusters]
    return tuple(dict.fromkeys(names))


def _with_size(target: Target, name: str, size: int) -> Target:
    def sized(memories: Iterable[Memory], *owner: str) -> tuple[Memory, ...]:
        return tuple(
            replace(memory, size_bytes=size)
            if name in (memory.name, ".".join((*owner, memory.name)))
            else memory
            for memory in memories
        )

    clusters = tuple(replace(c, memories=sized(c.memories, c.name)) for c in target.clusters)
    return replace(target, memories=sized(target.memories), clusters=clusters)


def _beside(node: Node, path: str) -> str:
    """Return a path that is relative to the file that names it."""
    return (Path(node.source.name).parent / path).as_posix()


_WORDS = (
    *("optimize", "requantize", "input", "output", "arena", "share", "weights"),
    *("schedule", "parallel"),
)
"""Options whose value is one word; the key tables have checked which."""


def options_with(options: Options, key: str, node: Node) -> Options:
    """Return `options` with one of them set; the key tables have checked the node."""
    said = f"'{key}'"
    if key in _WORDS:
        checked: dict[str, Any] = {key: word(node, said)}  # one of the words of its field
        return replace(options, **checked)
    match key:
        case "layout":
            orders = table(node, said)
            pairs = ((tensor, word(orders[tensor], tensor)) for tensor in orders)
            return replace(options, layout=tuple(sorted(pairs)))
        case "profile":
            return replace(options, profile=_beside(node, word(node, said)))
        case "hook" | "fold_constant_channels":
            truths: dict[str, Any] = {key: flag(node, said)}
            return replace(options, **truths)
        case "image_version" | "image_address":
            numbers: dict[str, Any] = {key: integer(node, said)}
            return replace(options, **numbers)
        case "image_slot":
            return replace(options, image_slot_bytes=whole(word(node, said), SIZE))
        case "max_recompute":
            return replace(options, max_recompute=number(node, said))
        case _:
            raise AssertionError(f"the option {said} is in no key table")
