"""Order of the tasks, life and place of every tensor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Buffer, MemoryUse, Schedule
from dlbuild.ir.schedule import Step as Line
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan, resident_names
from dlbuild.stages.budget import check_model
from dlbuild.stages.carried import after_tensors, carried_names
from dlbuild.stages.cluster_memory import arenas_of, cluster_of
from dlbuild.stages.lifetimes import Lifetime, kept_until_taken, lifetimes
from dlbuild.stages.order import least_peak_order
from dlbuild.stages.overlap import place_overlapping
from dlbuild.stages.peak import Part
from dlbuild.stages.problem import Bytes, Live, Problem, Step, aligned, live_at, lower_bound
from dlbuild.stages.scratch import scratch_blocks
from dlbuild.stages.sharing import CALLER, Block, Sharing, share
from dlbuild.stages.together import Together
from dlbuild.stages.windows import near_buffers

Spans = Sequence[tuple[int, int]]
"""For each step the steps [first, last) that may run at the same time, or later than it."""


def schedule(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    tiles: TilePlan,
    target: Target,
    options: Options,
    spans: Spans | None = None,
) -> Schedule:
    """Return steps in the order of least peak, one for each tile, and a place for each tensor.

    spans: of tiles that were dealt to several cores.

    Raises:
        UserError: no memory may hold the arena, or its budget is too small.
    """
    plan = arrange(graph, profile, tiles, target, options, spans)
    check_model(graph, profile, plan, target)
    return plan


def arrange(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    tiles: TilePlan,
    target: Target,
    options: Options,
    spans: Spans | None = None,
) -> Schedule:
    """Return the schedule whether its budgets hold or not.

    The profile's order is kept unless another one makes the arena smaller; tiles that were dealt to
    several cores are in their order already.

    Raises:
        UserError: no memory may hold the arena.
    """
    plan = _in_order(graph, profile, tiles, target, options, spans)
    is_dealt = target.resources[1] > 1
    lower = tiles if is_dealt else _reordered(graph, profile, tiles, options)
    if lower == tiles:
        return plan
    other = _in_order(graph, profile, lower, target, options)
    is_lower = other.memories[0].height_bytes < plan.memories[0].height_bytes
    return other if is_lower else plan


def _reordered(graph: Graph, profile: Profile, tiles: TilePlan, options: Options) -> TilePlan:
    """Return the tiles with their kernels in the order of least peak."""
    runs = [tuple(run) for _, run in groupby(tiles.tiles, key=lambda tile: tile.kernel)]
    kernels = [profile.kernel[run[0].kernel] for run in runs]
    if tiles.strips or tiles.residents or len({k.name for k in kernels}) < len(kernels):
        return tiles  # what runs together, or stays near, has an order of its own
    parts = [
        Part(k.reads, k.writes, k.in_place, k.alias is not None, after_tensors(profile, k))
        for k in kernels
    ]
    order = least_peak_order(graph, parts, options)
    return replace(tiles, tiles=tuple(tile for number in order for tile in runs[number]))


def _in_order(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    tiles: TilePlan,
    target: Target,
    options: Options,
    spans: Spans | None = None,
) -> Schedule:
    """Return the schedule of the tiles as they stand."""
    arenas, clusters = arenas_of(graph, target), cluster_of(graph, profile)
    profile = _without_in_place(profile, tiles)
    kernels = [tile.kernel for tile in tiles.tiles]
    together = Together(tiles)
    lives = dict(lifetimes(graph, profile, kernels, spans or together.spans))
    if spans and graph.states:
        # Nothing else ever has their bytes; who writes them waits for who still reads them.
        own = lifetimes(graph, profile, kernels, together.spans)
        lives |= {name: own[name] for name in carried_names(graph, profile)}
    lives |= kept_until_taken(graph, profile, options, len(kernels))
    sharing = share(graph, profile, kernels, lives, options, together.row_wise, clusters)
    steps = _lines(profile, tiles, sharing, together)
    home = _homes(tiles, target, arenas)
    blocks = [
        together.ringed(_buffers(graph, block, lives, home(block))) for block in sharing.blocks
    ]
    blocks += [(buffer,) for buffer in together.sums(next(iter(arenas.values())))]
    blocks += scratch_blocks(profile, tiles, arenas, clusters)
    filled = [
        _filled(graph, blocks, memory, steps, together, options) for memory in arenas.values()
    ]
    start = {r.tensor: r.offset_bytes for r in tiles.residents}
    start |= {name: offset for one in filled for name, offset in one.offsets.items()}
    placed = [_moved(buffer, start) for buffers in blocks for buffer in buffers]
    placed += near_buffers(tiles, kernels, target)
    placed.sort(key=lambda buffer: buffer.first_step)
    uses = (*(one.use for one in filled), *_near(tiles, placed, steps, target))
    return Schedule(steps, tuple(placed), uses, filled[0].solver)


@dataclass(frozen=True, slots=True)
class _Filled:
    """A memory with its blocks in it. offsets: of each by the name of its root."""

    use: MemoryUse
    offsets: Mapping[str, int]
    solver: str


def _filled(  # noqa: PLR0913, PLR0917 - what is placed, and what it depends on
    graph: Graph,
    blocks: Sequence[Sequence[Buffer]],
    memory: Memory,
    steps: Sequence[Line],
    together: Together,
    options: Options,
) -> _Filled:
    """Place the blocks of one memory."""
    resident = [buffers for buffers in blocks if buffers[0].memory == memory.name]
    kept = _kept(graph, options)
    apart = together.apart(resident, clear=kept, of=frozenset(graph.inputs))
    problem = Problem(tuple(_life(b, kept) for b in resident), apart)
    solution = place_overlapping(problem)
    # A C object's size is a multiple of the alignment of its elements.
    element = max((_buffer_element_bytes(graph, b) for bs in resident for b in bs), default=1)
    use = MemoryUse(
        memory.name,
        aligned(solution.height_bytes, element),
        aligned(solution.bound_bytes, element),
        memory.size_bytes,
        _peak_step(problem.lives, steps),
    )
    offsets = {v.name: at for v, at in zip(problem.lives, solution.offsets, strict=True)}
    return _Filled(use, offsets, solution.solver)


def _lines(
    profile: Profile, tiles: TilePlan, sharing: Sharing, together: Together
) -> tuple[Line, ...]:
    """Return a step for each tile."""
    return tuple(
        Line(
            number,
            tile.kernel,
            tile.number,
            is_code=_is_code(profile, sharing, tile.kernel),
            strip=together.strip_of.get(tile.kernel, 0),
        )
        for number, tile in enumerate(tiles.tiles)
    )


def _without_in_place(profile: Profile, tiles: TilePlan) -> Profile:
    """Return the profile for sharing: a later task may read what an earlier one has written, and
    what stays near lies apart from what does not.
    """
    cut = {tiling.kernel for tiling in tiles.tilings}
    near = resident_names(profile, tiles)
    kernels = (
        replace(k, in_place=()) if k.name in cut or near & {*k.reads, *k.writes} else k
        for k in profile.kernels
    )
    return replace(profile, kernels=tuple(kernels))


def _homes(
    tiles: TilePlan, target: Target, arenas: Mapping[str, Memory]
) -> Callable[[Block], Memory]:
    """Return what says in which memory a block lies that is not the caller's."""
    memories = {memory.name: memory for memory in target.memories}
    near = {resident.tensor: memories[resident.memory] for resident in tiles.residents}
    nearest = next(iter(arenas.values()))
    return lambda block: near.get(block.root, arenas.get(block.cluster, nearest))


def _near(
    tiles: TilePlan, buffers: Sequence[Buffer], steps: Sequence[Line], target: Target
) -> list[MemoryUse]:
    """Return how each near memory is filled: by windows, and by what stays in it."""
    used = {level.memory for tiling in tiles.tilings for level in tiling.levels}
    used |= {resident.memory for resident in tiles.residents}
    uses = []
    for memory in target.memories:
        here = [b for b in buffers if b.memory == memory.name]
        if memory.name not in used or not here:
            continue
        roots = dict.fromkeys(b.alias_of or b.tensor for b in here)
        blocks = ([b for b in here if root in (b.tensor, b.alias_of)] for root in roots)
        lives = tuple(_near_life(block) for block in blocks)
        height = max(b.offset_bytes + b.size_bytes for b in here)
        peak = _peak_step(lives, steps)
        bound = lower_bound(lives)
        uses.append(MemoryUse(memory.name, height, bound, memory.size_bytes, peak, is_near=True))
    return uses


def _near_life(buffers: Sequence[Buffer]) -> Live:
    """Return the life of bytes that have their place."""
    start = min(buffer.offset_bytes for buffer in buffers)
    life = _life(buffers, frozenset())
    return replace(life, size_bytes=Bytes(life.size_bytes - start))


def _is_code(profile: Profile, sharing: Sharing, kernel: str) -> bool:
    return profile.kernel[kernel].alias is None or kernel in sharing.copies


def _buffer_element_bytes(graph: Graph, buffer: Buffer) -> int:
    if buffer.dtype:
        return DTYPES[buffer.dtype].bits // 8
    return _element_bytes(graph, buffer.tensor)


def _element_bytes(graph: Graph, tensor: str) -> int:
    return max(DTYPES[graph.tensor[tensor].dtype].bits // 8, 1)


def _buffers(
    graph: Graph, block: Block, lives: Mapping[str, Lifetime], memory: Memory
) -> tuple[Buffer, ...]:
    """Return a buffer for each member of a block, offsets counted from the block's start."""
    aligns = {name: _element_bytes(graph, name) for name in block.members}
    start_align = 1 if block.owner else memory.align_bytes
    return tuple(
        Buffer(
            name,
            CALLER if block.owner else memory.name,
            at,
            graph.tensor[name].size_bytes,
            lives[name].first_step,
            lives[name].last_step,
            max(start_align, *aligns.values()) if name == block.root else aligns[name],
            "" if name == block.root else block.root,
        )
        for name, at in block.members.items()
    )


def _kept(graph: Graph, options: Options) -> frozenset[str]:
    """Return the outputs that must lie clear of every input, though they never meet in a run.

    An output in the arena is valid until the next run, and the caller writes the inputs into the
    arena before that.
    """
    is_at_risk = options.input == options.output == "arena"
    return frozenset(graph.outputs if is_at_risk else ())


def _life(buffers: Sequence[Buffer], kept: frozenset[str]) -> Live:
    """Return what the arena must keep for one block: all its bytes while any member lives."""
    (root,) = (buffer for buffer in buffers if not buffer.alias_of)
    is_kept = any(buffer.tensor in kept for buffer in buffers)
    return Live(
        root.tensor,
        Bytes(max(buffer.offset_bytes + buffer.size_bytes for buffer in buffers)),
        Step(0 if is_kept else min(buffer.first_step for buffer in buffers)),
        Step(max(buffer.last_step for buffer in buffers)),
        Bytes(root.align_bytes),
    )


def _moved(buffer: Buffer, start: Mapping[str, int]) -> Buffer:
    """Count a buffer's offset from the start of its memory."""
    root = buffer.alias_of or buffer.tensor
    return replace(buffer, offset_bytes=start.get(root, 0) + buffer.offset_bytes)


def _peak_step(lives: Sequence[Live], steps: Sequence[Line]) -> int:
    """Return the first step that needs most; of equals one with code."""
    needs = [sum(life.size_bytes for life in live_at(lives, line.number)) for line in steps]
    return max(range(len(steps)), key=lambda n: (needs[n], steps[n].is_code, -n), default=0)
