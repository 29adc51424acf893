"""Which tensors lie in the bytes of another: views that need no code, and kernels in place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph, State
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Options
from dlbuild.stages.lifetimes import Lifetime
from dlbuild.stages.problem import Bytes, Step

CALLER = "caller"
"""The memory of interface buffers that the user's code owns."""


IN_ARENA = ("arena", "streamed")
"""Where `input` says that the inputs lie in the arena, as a whole or a few rows at a time."""


@dataclass(frozen=True)
class RowWise:
    """The kernels that are computed row by row, and the bytes of tensors that are never whole."""

    kernels: frozenset[str] = frozenset()
    ring_bytes: Mapping[str, int] = field(default_factory=dict)


NO_ROWS = RowWise()


@dataclass
class Block:
    """Bytes that hold one tensor after another, or tensors and views of them.

    owner: the interface tensor whose buffer the caller gives, or the empty name: arena.
    members: where each begins, in order of joining.
    is_constant: the caller's input, which nothing may write.
    state: the state that lies in it from run to run, None of all others.
    cluster: in whose memory it lies, if there are several.
    """

    size_bytes: Bytes
    owner: str = ""
    is_constant: bool = False
    members: dict[str, Bytes] = field(default_factory=dict)
    state: State | None = None
    cluster: str = ""

    @property
    def root(self) -> str:
        """The tensor that gives the block its name: the owner, else the first one."""
        return self.owner or next(iter(self.members))


@dataclass(frozen=True)
class Sharing:
    """The blocks in order of first use, and the alias kernels that must be code after all."""

    blocks: tuple[Block, ...]
    copies: frozenset[str]


def share(  # noqa: PLR0913, PLR0917 - all that decides who lies where
    graph: Graph,
    profile: Profile,
    kernels: Sequence[str],
    lives: Mapping[str, Lifetime],
    options: Options,
    rows: RowWise = NO_ROWS,
    cluster_of: Mapping[str, str] | None = None,
) -> Sharing:
    """Decide, step by step, which tensors share bytes.

    An alias becomes code where its output and its source may not be the same bytes: an interface
    tensor of its own each, a constant, or an element that would lie unaligned. In place is
    chosen whenever nobody needs the overwritten bytes any more and they are the plan's to write.
    A kernel of several tiles is never in place: a later tile may read what an earlier one wrote.
    Nor is one that is computed row by row, together with others. cluster_of: of each kernel, if
    there are several; each writes into bytes of its own cluster.
    """
    maker = _Maker(graph, profile, lives, options, rows, cluster_of or {})
    for name in graph.inputs:
        maker.add_input(name)
    copies = set()
    for step, name in enumerate(kernels):
        kernel = profile.kernel[name]
        if all(tensor in maker.block_of for tensor in kernel.writes):
            continue  # a later tile
        if kernel.alias and maker.add_view(kernel):
            continue
        if kernel.alias:
            copies.add(name)
        is_whole = kernels.count(name) == 1 and name not in rows.kernels
        pairs = kernel.in_place if is_whole else ()
        maker.add_outputs(kernel, pairs, Step(step))
    return Sharing(tuple(maker.blocks), frozenset(copies))


class _Maker:
    """Blocks as they grow."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that decides who lies where
        self,
        graph: Graph,
        profile: Profile,
        lives: Mapping[str, Lifetime],
        options: Options,
        rows: RowWise,
        cluster_of: Mapping[str, str],
    ) -> None:
        self.rows = rows
        self.cluster_of = cluster_of
        self.graph = graph
        self.lives = lives
        self.options = options
        self.interface = frozenset((*graph.inputs, *graph.outputs))
        self.writer = {name: kernel.name for kernel in profile.kernels for name in kernel.writes}
        self.next_of = {
            kernel.alias.source: graph.carried[name]
            for kernel in profile.kernels
            if kernel.alias is not None
            for name in kernel.writes
            if name in graph.carried
        }
        # What a state's last kernel reads while it writes may not lie in the state's bytes.
        self.copied = frozenset(
            read
            for kernel in profile.kernels
            if kernel.alias is None and graph.carried.keys() & kernel.writes
            for read in kernel.reads
        )
        self.blocks: list[Block] = []
        self.block_of: dict[str, Block] = {}

    def add_input(self, name: str) -> None:
        state = self.graph.carried.get(name)
        is_caller = self.options.input not in IN_ARENA and state is None
        cluster = self.cluster_of.get(self.writer.get(state.output, ""), "") if state else ""
        owner = name if is_caller else ""
        self._open(name, owner, is_constant=is_caller, cluster=cluster)
        self.blocks[-1].state = state

    def add_view(self, kernel: Kernel) -> bool:
        """Let an alias kernel's output be a view; say whether it may."""
        assert kernel.alias is not None
        (name,) = kernel.writes
        block = self.block_of.get(kernel.alias.source)
        if block is None or not self._is_own(block, kernel):
            return False
        at = block.members[kernel.alias.source] + kernel.alias.offset_bytes
        if kernel.name in self.rows.kernels:
            # All of a streamed input, of which a few rows are there: a name, as far as bytes go.
            self._join(block, name, at)
            return True
        if block.state is not None and name in self.copied:
            return False
        is_inside = at + self._size(name) <= block.size_bytes
        if not is_inside or at % self._align(name) or not self._may_join(block, name, at):
            return False
        self._join(block, name, at)
        return True

    def add_outputs(self, kernel: Kernel, pairs: Sequence[tuple[str, str]], step: Step) -> None:
        taken: set[str] = set()
        for name in kernel.writes:
            state = self._state_to_write(name, step)
            if state is not None:
                self._join(self.block_of[state.input], name, Bytes(0))
                continue
            sources = [
                source
                for source, output in pairs
                if output == name
                and source not in taken
                and self._may_overwrite(kernel, source, name, step)
            ]
            if not sources:
                owner = name if self._is_callers_output(name) else ""
                self._open(name, owner, cluster=self.cluster_of.get(kernel.name, ""))
                continue
            if self._is_callers_output(name):
                # Of two, the one that leaves the arena for the longer time.
                sources.sort(key=lambda source: self._first_step(self.block_of[source]))
            taken.add(sources[0])
            block = self.block_of[sources[0]]
            self._join(block, name, block.members[sources[0]])

    def _state_to_write(self, name: str, step: Step) -> State | None:
        """Return the state that a tensor is the next value of, if nobody reads the old one now."""
        state = self.graph.carried.get(name) or self.next_of.get(name)
        if state is None:
            return None
        block = self.block_of[state.input]
        is_over = all(self.lives[member].last_step <= step for member in block.members)
        return state if is_over else None

    def _may_overwrite(self, kernel: Kernel, source: str, name: str, step: Step) -> bool:
        block = self.block_of.get(source)
        if block is None or block.is_constant or self._size(source) != self._size(name):
            return False
        if block.state is not None and block.state != self.next_of.get(name):
            return False
        if not self._is_own(block, kernel):
            return False
        first = block.members[source]
        last = first + self._size(name)
        for member, at in block.members.items():
            if at >= last or at + self._size(member) <= first:
                continue
            # The source may be read in this very step, a view of it may not: another map.
            is_read = self.lives[member].last_step > step + 1
            is_read_now = member != source and member in kernel.reads
            if is_read or is_read_now or member in self.graph.outputs:
                return False
        return first % self._align(name) == 0 and self._may_join(block, name, first)

    def _may_join(self, block: Block, name: str, at: int) -> bool:
        """Say whether a tensor may lie in a block as far as the interface is concerned."""
        if block.owner and self._dtype(name) != self._dtype(block.owner):
            return False  # the caller's array has one type
        if name in self.graph.carried:
            return block.state == self.graph.carried[name] and at == 0
        if name not in self.graph.outputs:
            return True
        if self.interface & block.members.keys():
            return False
        if not self._is_callers_output(name):
            return True
        is_same = at == 0 and self._size(name) == block.size_bytes
        return is_same and all(self._dtype(m) == self._dtype(name) for m in block.members)

    def _join(self, block: Block, name: str, at: int) -> None:
        block.members[name] = Bytes(at)
        self.block_of[name] = block
        if self._is_callers_output(name):
            block.owner = name

    def _is_own(self, block: Block, kernel: Kernel) -> bool:
        """Say whether bytes may hold what a kernel writes, as far as clusters are concerned."""
        return block.is_constant or block.cluster == self.cluster_of.get(kernel.name, "")

    def _open(self, name: str, owner: str, *, is_constant: bool = False, cluster: str = "") -> None:
        size_bytes = self.rows.ring_bytes.get(name, self._size(name))
        begin = {name: Bytes(0)}
        block = Block(Bytes(size_bytes), owner, is_constant, begin, cluster=cluster)
        self.blocks.append(block)
        self.block_of[name] = block

    def _first_step(self, block: Block) -> int:
        return min(self.lives[member].first_step for member in block.members)

    def _is_callers_output(self, name: str) -> bool:
        is_own = name in self.graph.outputs and name not in self.graph.carried
        return is_own and self.options.output == CALLER

    def _size(self, name: str) -> int:
        return self.graph.tensor[name].size_bytes

    def _dtype(self, name: str) -> str:
        return self.graph.tensor[name].dtype

    def _align(self, name: str) -> int:
        return max(DTYPES[self._dtype(name)].bits // 8, 1)
