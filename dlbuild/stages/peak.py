"""How many bytes of activations a grouping keeps alive at once, in the order of its groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlbuild.ir.graph import Graph
from dlbuild.ir.target import Options
from dlbuild.rulebook.derive import in_place, used_by
from dlbuild.rulebook.instance import Instance


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel.

    reads, writes: activations.
    in_place: (input, output) pairs that may share one buffer.
    is_move: it only renames or reorders, so its output is its input's bytes.
    after: tensors of which whoever writes them runs before it.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    in_place: tuple[tuple[str, str], ...]
    is_move: bool
    after: tuple[str, ...] = ()


@dataclass
class _Bytes:
    """A tensor and its views, alive in the steps [first, last]."""

    size_bytes: int
    first: int
    last: int = 0


@dataclass
class _Lives:
    of: dict[str, _Bytes] = field(default_factory=dict)

    def add(self, tensor: str, size_bytes: int, step: int) -> None:
        self.of.setdefault(tensor, _Bytes(size_bytes, step))
        self.keep(tensor, step)

    def keep(self, tensor: str, step: int) -> None:
        self.of[tensor].last = max(self.of[tensor].last, step)


def peak_bytes(graph: Graph, parts: Sequence[Part], options: Options) -> int:
    """Return the bytes of the fullest step of the arena, without alignment.

    Args:
        graph: the model.
        parts: its kernels, in order of execution.
        options: whether interface tensors lie in the arena.
    """
    lives = _Lives()
    for name in graph.inputs:
        lives.add(name, arena_bytes(name, graph, options), 0)
    for step, part in enumerate(parts):
        for tensor in part.reads:
            lives.keep(tensor, step)
        for tensor in part.writes:
            if part.is_move and part.reads:
                lives.of.setdefault(tensor, lives.of[part.reads[0]])
            else:
                lives.add(tensor, arena_bytes(tensor, graph, options), step)
    for tensor in (*graph.outputs, *(state.input for state in graph.states)):
        if tensor in lives.of:
            lives.keep(tensor, len(parts))
    unique = {id(b): b for b in lives.of.values()}.values()
    return max(
        (
            sum(b.size_bytes for b in unique if b.first <= step <= b.last)
            - _overwritten(part, step, lives)
            for step, part in enumerate(parts)
        ),
        default=0,
    )


def _overwritten(part: Part, step: int, lives: _Lives) -> int:
    """Return the bytes that a step writes over inputs that nothing reads any more."""
    ending = {t for t in part.reads if lives.of[t].last == step}
    if part.is_move:
        return 0
    shared: dict[str, int] = {}
    for read, written in part.in_place:
        if read in ending and lives.of[read].size_bytes == lives.of[written].size_bytes:
            shared[written] = lives.of[written].size_bytes
    return sum(shared.values())


def arena_bytes(tensor: str, graph: Graph, options: Options) -> int:
    """Return the bytes that a tensor takes in the arena: none if the caller holds it."""
    is_callers = tensor not in graph.carried and (
        (tensor in graph.inputs and options.input != "arena")
        or (tensor in graph.outputs and options.output != "arena")
    )
    return 0 if is_callers else graph.tensor[tensor].size_bytes


def part_of(instance: Instance, constants: frozenset[str], *, is_move: bool) -> Part:
    """Return what the memory of one kernel depends on, each tensor in the model's own order."""
    read = (o.tensor for o in used_by(instance) if o.role == "input")
    reads = tuple(dict.fromkeys(t for t in read if t not in constants))
    writes = tuple(o.tensor for o in instance.operands if o.role == "output")
    pairs = tuple(pair for pair in in_place(instance, {}) if pair[0] in reads)
    return Part(reads, writes, pairs, is_move)
