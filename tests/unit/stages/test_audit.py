"""The audit: each way in which a plan can be wrong is caught, and named by step and tensors."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.profile import Alias, Profile
from dlbuild.ir.schedule import Schedule, Step
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import Tile, TilePlan
from dlbuild.stages.audit import AuditError, audit
from dlbuild.stages.schedule import arrange
from dlbuild.stages.tile import tile
from tests.kernels import kernel

KERNELS = (
    kernel("conv", "x", "a"),
    kernel("relu", "a", "b", in_place=[("a", "b")]),
    kernel("slice", "b", "c", alias=Alias("b", 4)),
    kernel("dw", "c", "d"),
    kernel("add", "b d", "e"),
    kernel("fc", "e", "y"),
)
SIZES = {"x": 16, "a": 12, "b": 12, "c": 8, "d": 8, "e": 8, "y": 4}
NET = Graph(
    "net",
    ("x",),
    ("y",),
    tuple(Tensor(name, "int8", (size,)) for name, size in SIZES.items()),
    tuple(Op(k.anchor, "Any", k.reads, k.writes) for k in KERNELS),
    (),
)
PROFILE = Profile(KERNELS)
TARGET = Target("board", (Memory("sram", 64), Memory("flash", 64, holds=("weights",))))
TILES = tile(NET, PROFILE, TARGET, Options())
PLAN = arrange(NET, PROFILE, TILES, TARGET, Options())


def changed(tensor: str, **fields: int | str) -> Schedule:
    buffers = tuple(
        replace(b, **fields) if b.tensor == tensor else b  # type: ignore[arg-type]  # by name
        for b in PLAN.buffers
    )
    return replace(PLAN, buffers=buffers)


def with_use(**fields: int | str | None) -> Schedule:
    use = replace(PLAN.memories[0], **fields)  # type: ignore[arg-type]  # by name
    return replace(PLAN, memories=(use,))


def reordered(*order: int) -> Schedule:
    steps = tuple(replace(PLAN.steps[old], number=new) for new, old in enumerate(order))
    return replace(PLAN, steps=steps)


def verdict(plan: Schedule, *, profile: Profile = PROFILE, tiles: TilePlan = TILES) -> str:
    with pytest.raises(AuditError) as caught:
        audit(NET, profile, tiles, plan, TARGET, Options())
    return str(caught.value)


def test_a_right_plan_passes() -> None:
    audit(NET, PROFILE, TILES, PLAN, TARGET, Options())
    assert [(b.tensor, b.offset_bytes) for b in PLAN.buffers] == [
        ("x", 0),
        ("a", 0),
        ("b", 0),
        ("c", 4),
        ("d", 12),
        ("e", 20),
        ("y", 0),
    ]


MUTATIONS: dict[str, tuple[Callable[[], Schedule], str]] = {
    "overlap": (
        lambda: changed("d", offset_bytes=8),
        "step 3: d and b share bytes undeclared",
    ),
    "view elsewhere": (
        lambda: changed("c", offset_bytes=0),
        "step 3 (dw) reads c, whose bytes hold something else",
    ),
    "in place undeclared": (
        lambda: changed("b", alias_of=""),
        "step 1: b and a share bytes undeclared",
    ),
    "size": (
        lambda: changed("d", size_bytes=4),
        "the buffer of d has 4 B at 12, the tensor 8 B",
    ),
    "negative offset": (
        lambda: changed("d", offset_bytes=-4),
        "the buffer of d has 8 B at -4, the tensor 8 B",
    ),
    "alignment": (lambda: changed("d", offset_bytes=13), "d lies at 13, which is not aligned"),
    "memory's alignment": (
        lambda: changed("d", offset_bytes=14, align_bytes=1),
        "d lies at 14, not aligned for sram",
    ),
    "life begins too late": (
        lambda: changed("d", first_step=4),
        "step 3 (dw) uses d, which lives in [4, 5)",
    ),
    "life ends too early": (
        lambda: changed("b", last_step=3),
        "step 4 (add) uses b, which lives in [1, 3)",
    ),
    "output dies": (lambda: changed("y", last_step=5), "output y does not live to the end"),
    "input comes late": (
        lambda: changed("x", first_step=1, last_step=2),
        "input x does not live from the start",
    ),
    "overlapping lives in place": (
        lambda: changed("a", last_step=5),
        "step 1: b and a may not share bytes",
    ),
    "order": (
        lambda: reordered(1, 0, 2, 3, 4, 5),
        "step 0 (relu) uses b, which lives in [1, 5)",
    ),
    "order within lifetimes": (
        lambda: replace(
            reordered(1, 0, 2, 3, 4, 5),
            buffers=tuple(replace(b, first_step=0, last_step=6) for b in PLAN.buffers),
        ),
        "step 0: b and a may not share bytes",
    ),
    "step left out": (
        lambda: replace(PLAN, steps=PLAN.steps[:-1]),
        "tile 0 of fc is planned 1 times and scheduled 0 times",
    ),
    "step twice": (
        lambda: replace(PLAN, steps=(*PLAN.steps, Step(6, "fc"))),
        "tile 0 of fc is planned 1 times and scheduled 2 times",
    ),
    "numbers": (
        lambda: replace(PLAN, steps=(replace(PLAN.steps[0], number=7), *PLAN.steps[1:])),
        "step 7 (conv) is in place 0",
    ),
    "no code": (
        lambda: replace(PLAN, steps=(*PLAN.steps[:5], replace(PLAN.steps[5], is_code=False))),
        "step 5 (fc) computes, but has no code",
    ),
    "no buffer": (lambda: replace(PLAN, buffers=PLAN.buffers[:-1]), "y has 0 buffers"),
    "two buffers": (
        lambda: replace(PLAN, buffers=(*PLAN.buffers, PLAN.buffers[-1])),
        "y has 2 buffers",
    ),
    "buffer of nothing": (
        lambda: replace(PLAN, buffers=(*PLAN.buffers, replace(PLAN.buffers[0], tensor="z"))),
        "z has a buffer, but nobody writes it",
    ),
    "outside its block": (
        lambda: changed("c", offset_bytes=8),
        "c is not inside a",
    ),
    "interface in the wrong memory": (
        lambda: changed("y", memory="sram", offset_bytes=28),
        "y lies in sram, the option says caller",
    ),
    "output over the input": (
        lambda: changed("y", alias_of="x"),
        "y is the caller's, but lies in x",
    ),
    "intermediate in the caller's input": (
        lambda: replace(
            changed("e", memory="caller", offset_bytes=0, alias_of="x", align_bytes=1),
            memories=with_use(height_bytes=20, bound_bytes=20).memories,
        ),
        "step 4 (add) writes e into an input of the caller's",
    ),
    "intermediate in bytes of nobody": (
        lambda: changed("e", memory="caller", offset_bytes=0),
        "e lies in bytes of the caller's that do not exist",
    ),
    "memory without a statement": (
        lambda: changed("e", memory="flash", offset_bytes=0),
        "e lies in flash, of which no use is stated",
    ),
    "memory that may not hold it": (
        lambda: replace(
            with_use(memory="flash"),
            buffers=tuple(
                replace(b, memory="flash") if b.memory == "sram" else b for b in PLAN.buffers
            ),
        ),
        "flash may not hold the arena",
    ),
    "height": (lambda: with_use(height_bytes=27), "sram is filled to 28 B, not to 27"),
    "bound": (lambda: with_use(bound_bytes=29), "sram is below its lower bound"),
    "stated budget": (lambda: with_use(budget_bytes=99), "the budget of sram is not 99"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_plan_is_caught(name: str) -> None:
    mutation, fault = MUTATIONS[name]
    assert verdict(mutation()) == fault


def test_a_copy_that_became_a_view_is_caught() -> None:
    plan = replace(
        changed("c", offset_bytes=12, alias_of=""),
        steps=tuple(replace(step, is_code=True) for step in PLAN.steps),
    )
    assert verdict(plan) == "step 3: d and c share bytes undeclared"


def test_in_place_without_leave_of_the_rule_is_caught() -> None:
    strict = Profile(tuple(replace(k, in_place=()) for k in KERNELS))
    assert verdict(PLAN, profile=strict) == "step 1: b and a may not share bytes"


def test_in_place_over_several_tiles_is_caught() -> None:
    tiles = TilePlan(
        (Tile("conv"), Tile("relu"), Tile("relu", 1), *(Tile(k.name) for k in KERNELS[2:]))
    )
    steps = tuple(
        Step(n, t.kernel, t.number, is_code=t.kernel != "slice") for n, t in enumerate(tiles.tiles)
    )
    first = {"x": 0, "a": 0, "b": 1, "c": 3, "d": 4, "e": 5, "y": 6}
    last = {"x": 1, "a": 3, "b": 6, "c": 5, "d": 6, "e": 7, "y": 7}
    buffers = tuple(
        replace(b, first_step=first[b.tensor], last_step=last[b.tensor]) for b in PLAN.buffers
    )
    plan = replace(PLAN, steps=steps, buffers=buffers)
    assert verdict(plan, tiles=tiles) == "step 1: b and a may not share bytes"


def test_a_kernel_that_two_write_is_caught() -> None:
    double = Profile((*KERNELS[:-1], kernel("fc", "e", "d")))
    assert verdict(PLAN, profile=double) == "d is written more than once, or is an input"


def test_a_budget_that_does_not_hold_is_caught() -> None:
    tight = replace(TARGET, memories=(Memory("sram", 27),))
    with pytest.raises(AuditError) as caught:
        audit(NET, PROFILE, TILES, with_use(budget_bytes=27), tight, Options())
    assert str(caught.value) == "sram holds 28 B, more than its budget"
