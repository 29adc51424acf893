"""What a model is built for: memories, cores, costs, toolchain; and the options of one build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Rounding = Literal["exact", "fixed"]


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory, its budget, and what copying into it costs.

    copy_objective: of tiles, time or traffic; empty = time if the rate is known and speed is asked
    for.
    """

    name: str
    size_bytes: int | None = None
    align_bytes: int = 4
    section: str = ""
    holds: tuple[str, ...] = ()
    copy_setup_cycles: int = 0
    copy_bytes_per_cycle: float = 0.0
    copy_objective: str = ""
    executes: bool = False


@dataclass(frozen=True, slots=True)
class Dma:
    """A copy engine, and the alignment of what it copies."""

    align_bytes: int = 1


@dataclass(frozen=True, slots=True)
class Registers:
    """What an innermost loop may keep at hand.

    integers, floats: numbers, or vectors of `lanes` numbers of 32 bits. With more than one lane
    the compiler turns loops over floats into vectors.
    """

    integers: int = 11
    floats: int = 11
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The commands that turn C into objects. `cflags` come after dlbuild's own."""

    cc: str = "cc"
    ar: str = "ar"
    size: str = "size"
    cflags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """What a program needs to start on a target: paths of a linker script and of C and assembler.

    ldflags: libraries and more, after dlbuild's own.
    """

    script: str = ""
    sources: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Some cores that share memories which other clusters do not use.

    count: of cores. memories: from near to far; the first that may hold the arena holds it.
    """

    name: str
    count: int = 1
    memories: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """What a hand-written kernel takes, in cycles: of each MAC, and of each element it writes.

    window: of each number of a window that it makes ready once more, for channels that other tasks
    compute; 0 = unknown.
    """

    mac: float = 0.0
    output: float = 0.0
    window: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """One chip. `memories` are from near to far.

    cycles: of loops, for each MAC by dtype. kernels: of hand-written kernels, by their names.
    resources: what computes, and how many; of all clusters together. clusters: none, or several.
    parameters: whether clusters read one table of weights, or each its own in a memory of its own.
    board, runner: how a program is linked and run there; without a runner it runs on this machine.
    """

    name: str
    memories: tuple[Memory, ...] = ()
    features: tuple[str, ...] = ()
    cycles: Mapping[str, float] = field(default_factory=dict)
    kernels: Mapping[str, Rate] = field(default_factory=dict)
    resources: tuple[str, int] = ("cores", 1)
    clusters: tuple[Cluster, ...] = ()
    parameters: Literal["shared", "replicated"] = "shared"
    stack_bytes: int | None = None
    clock_hz: int | None = None
    toolchain: Toolchain = Toolchain()
    board: Board | None = None
    runner: str = ""
    dma: Dma | None = None
    registers: Registers = Registers()


def weights_memory(memories: Sequence[Memory]) -> Memory | None:
    """Return the memory in which tables lie: the farthest that may hold weights."""
    return next(reversed(weights_memories(memories)), None)


def weights_memories(memories: Sequence[Memory]) -> tuple[Memory, ...]:
    """Return the memories that may hold weights: those that say so, or say nothing and are far."""
    return tuple(
        memory
        for number, memory in enumerate(memories)
        if "weights" in memory.holds or (not memory.holds and number > 0)
    )


def is_tiled(memories: Sequence[Memory]) -> bool:
    """Say whether kernels may run through one of these memories, and so need a port."""
    return any("tiles" in memory.holds for memory in memories)


@dataclass(frozen=True, slots=True)
class Options:
    """The resolved options of one build (CONFIG.md, levels T, M and B).

    profile: path of the file with measurements, or the empty text; its content alone matters.
    image_version: number in the head of an image of weights. image_address: where it is written in
    flash; None if nobody says. image_slot_bytes: the room kept for it there; None = its own size.
    """

    optimize: Literal["speed", "ram", "size"] = "speed"
    requantize: Rounding = "exact"
    layout: tuple[tuple[str, str], ...] = ()
    input: Literal["caller", "arena", "streamed", "external"] = "caller"
    output: Literal["caller", "arena"] = "caller"
    max_recompute: float = 1.0
    arena: Literal["static", "caller"] = "static"
    share: str = ""
    schedule: Literal["auto", "round_robin", "list", "split"] = "auto"
    parallel: Literal["auto", "data", "model", "pipeline"] = "auto"
    weights: Literal["auto", "braces", "string", "incbin", "image"] = "auto"
    image_version: int = 0
    image_address: int | None = None
    image_slot_bytes: int | None = None
    fold_constant_channels: bool = False
    hook: bool = False
    profile: str = ""
