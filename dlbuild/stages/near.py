"""What lies in the near memory of a target: windows of kernels, and tensors that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import Resident, TilePlan, Tiling
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.cycles import loops_cost
from dlbuild.stages.hand_space import hand_spaces
from dlbuild.stages.place import Solution, place
from dlbuild.stages.problem import Bytes, Live, Problem, Step
from dlbuild.stages.residency import Candidate, Cutting, Residency, candidates
from dlbuild.stages.schedule import arrange
from dlbuild.stages.spaces import space_of
from dlbuild.stages.staging import staged, tensors_beyond
from dlbuild.stages.tile_search import Near
from dlbuild.stages.tiling import near_of, planned
from dlbuild.stages.windows import window_name

TRIES = 8
"""So often the choice is made for a smaller memory, because what was chosen leaves gaps."""


def near_plan(  # noqa: PLR0913, PLR0917 - the inputs of the stage, and what it has made so far
    graph: Graph,
    profile: Profile,
    plan: TilePlan,
    memories: Sequence[Memory],
    target: Target,
    options: Options,
    book: RuleBook,
) -> TilePlan:
    """Return a plan whose kernels run through a near memory, those of strips left out.

    Tensors stay there between kernels where that moves less, or is faster. A kernel that cannot be
    cut, or not so small that it fits, reads and writes the far memory, unless all of its tensors
    stay.

    memories: that hold tiles, the nearest first; through the second, if there is one, come those
    of which less is moved from afar by that.
    """
    memory = memories[0]
    cuttings = _cuttings(graph, profile, plan, memories, target, options, book)
    stubs = tuple(Tiling(name, memory.name, (), (), 0, 0, 0) for name in cuttings)
    order = arrange(graph, profile, replace(plan, tilings=stubs), target, options)
    near = near_of(memory, target, options, None)
    found = list(candidates(graph, profile, order, near))
    kernels = [profile.kernel[step.kernel] for step in order.steps]
    residency = Residency(graph, kernels, cuttings, near, found)
    names = [kernel.name for kernel in kernels]
    size_bytes = near.size_bytes
    between = _Between.of(graph, memories[1:], target, options)
    for _ in range(TRIES):
        chosen = residency.chosen(size_bytes)
        if not chosen:
            break
        tilings = _tilings(residency, chosen, names, cuttings, size_bytes, between)
        placed = _placed(chosen, tilings, names, near.align_bytes)
        if placed.height_bytes <= near.size_bytes:
            tiles = {tile.kernel: tile for tile in plan.tiles}
            ordered = replace(plan, tiles=tuple(tiles[name] for name in names))
            return _with_places(ordered, chosen, tilings, placed, profile, memory)
        size_bytes -= placed.height_bytes - near.size_bytes
    tilings = _tilings(residency, (), names, cuttings, near.size_bytes, between)
    placed = _placed((), tilings, names, near.align_bytes)
    return _with_places(plan, (), tilings, placed, profile, memory)


def _cuttings(  # noqa: PLR0913, PLR0917 - all that decides how a kernel may be cut
    graph: Graph,
    profile: Profile,
    plan: TilePlan,
    memories: Sequence[Memory],
    target: Target,
    options: Options,
    book: RuleBook,
) -> Mapping[str, Cutting]:
    """Return the kernels that can be cut so small that they fit the empty near memory.

    By loops, or by a hand-written kernel.
    """
    memory = memories[0]
    in_strips = {layer.kernel for strip in plan.strips for layer in strip.layers}
    found = {}
    for kernel in profile.kernels:
        if kernel.alias is not None or kernel.name in in_strips:
            continue
        instance = instance_of(kernel, graph, book, wish_of(target, options))
        space = space_of(kernel, instance, graph, profile)
        if space is None or not space.moved:
            continue
        near = near_of(memory, target, options, kernel)
        by_hand = hand_spaces(kernel, instance, graph, profile)
        slowness = loops_cost(kernel, instance, target)
        cutting = Cutting(kernel, (*by_hand, space), near, slowness)
        if cutting.best(frozenset(), near.size_bytes) is not None:
            found[kernel.name] = cutting
    return found


@dataclass(frozen=True)
class _Between:
    """The memory between the nearest one and those in which tensors lie. beyond: these tensors."""

    memory: Memory
    near: Near
    beyond: frozenset[str]

    @classmethod
    def of(
        cls, graph: Graph, memories: Sequence[Memory], target: Target, options: Options
    ) -> _Between | None:
        for memory in memories:
            near = replace(near_of(memory, target, options, None), objective="traffic")
            return cls(memory, near, tensors_beyond(graph, memory, target))
        return None


def _tilings(  # noqa: PLR0913, PLR0917 - all that decides how a kernel runs
    residency: Residency,
    chosen: Sequence[Candidate],
    kernels: Sequence[str],
    cuttings: Mapping[str, Cutting],
    size_bytes: int,
    between: _Between | None,
) -> list[Tiling]:
    """Return the tilings beside what stays; windows are counted from 0."""
    found = []
    for step, name in enumerate(kernels):
        if name not in cuttings:
            continue
        cutting = cuttings[name]
        left = residency.left(chosen, step, size_bytes)
        here = [c for c in chosen if c.first_step <= step < c.last_step]
        staying = frozenset(tensor for c in here for tensor in c.members)
        best = cutting.best(staying, left)
        assert best is not None, "what was weighed fits"
        two = between and staged(cutting, staying, left, between.near, between.beyond)
        if between and two and two.around:
            around = replace(two.around, memory=between.memory.name)
            found.append(replace(two, around=around))
        elif best.space.moved:
            choice = best.choice
            found.append(planned(name, best.space, choice.loops, best.near, choice.doubled))
    return found


def _placed(
    chosen: Sequence[Candidate], tilings: Sequence[Tiling], kernels: Sequence[str], align: int
) -> Solution:
    """Place what stays, and the windows of each kernel during its step."""
    lives = [
        Live(c.tensor, c.size_bytes, c.first_step, c.last_step, Bytes(c.align_bytes))
        for c in chosen
    ]
    for tiling in tilings:
        step = kernels.index(tiling.kernel)
        lives += [
            Live(
                window_name(b.operand, tiling.kernel),
                Bytes(b.copies * b.stride_bytes),
                Step(step),
                Step(step + 1),
                Bytes(max(align, DTYPES[b.dtype].bits // 8)),
            )
            for b in tiling.buffers
        ]
    return place(Problem(tuple(lives)))


def _with_places(  # noqa: PLR0913, PLR0917 - a plan and all that is known of it
    plan: TilePlan,
    chosen: Sequence[Candidate],
    tilings: Sequence[Tiling],
    placed: Solution,
    profile: Profile,
    memory: Memory,
) -> TilePlan:
    """Return the plan with what lies in the near memory, and where."""
    offsets = iter(placed.offsets)
    residents = tuple(Resident(c.tensor, memory.name, next(offsets)) for c in chosen)
    moved = {
        tiling.kernel: replace(
            tiling,
            memory=memory.name,
            buffers=tuple(replace(b, offset_bytes=next(offsets)) for b in tiling.buffers),
        )
        for tiling in tilings
    }
    in_order = tuple(moved[k.name] for k in profile.kernels if k.name in moved)
    return replace(plan, tilings=in_order, residents=residents)
