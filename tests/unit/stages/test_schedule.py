"""Schedules of hand-made networks: who shares bytes with whom, where, from when to when."""

from collections.abc import Mapping, Sequence

import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.profile import Alias, Kernel, Profile
from dlbuild.ir.schedule import Buffer, Schedule
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import Box, Tile, TilePlan
from dlbuild.stages.audit import audit
from dlbuild.stages.schedule import arrange
from dlbuild.stages.tile import tile
from tests.kernels import kernel

BOARD = Target("board", (Memory("sram", 65536), Memory("flash", 1 << 20)))


def plan(  # noqa: PLR0913 - the keywords are what a test varies
    sizes: Mapping[str, int],
    kernels: Sequence[Kernel],
    *,
    outputs: str = "y",
    dtypes: Mapping[str, str] | None = None,
    target: Target = BOARD,
    options: Options | None = None,
) -> Schedule:
    """Schedule kernels over tensors of so many elements; the input is `x`. The audit must agree."""
    options = options or Options()
    dtypes = dtypes or {}
    graph = Graph(
        "net",
        ("x",),
        tuple(outputs.split()),
        tuple(Tensor(name, dtypes.get(name, "int8"), (n,)) for name, n in sizes.items()),
        tuple(Op(k.anchor, "Any", k.reads, k.writes) for k in kernels),
        (),
    )
    profile = Profile(tuple(kernels))
    tiles = tile(graph, profile, target, options)
    made = arrange(graph, profile, tiles, target, options)
    audit(graph, profile, tiles, made, target, options)
    return made


def place_of(buffer: Buffer) -> tuple[str, int, str]:
    return buffer.memory, buffer.offset_bytes, buffer.alias_of


def test_interface_buffers_are_the_callers() -> None:
    made = plan({"x": 8, "y": 8}, [kernel("k", "x", "y")])
    assert place_of(made.buffer["x"]) == ("caller", 0, "")
    assert place_of(made.buffer["y"]) == ("caller", 0, "")
    assert made.memories[0].height_bytes == 0


def test_a_tensor_lives_from_its_writing_to_its_last_reading() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 8, "y": 8},
        [kernel("k0", "x", "a"), kernel("k1", "a", "b"), kernel("k2", "a b", "y")],
    )
    lives = [(b.tensor, b.first_step, b.last_step) for b in made.buffers]
    assert lives == [("x", 0, 1), ("a", 0, 3), ("b", 1, 3), ("y", 2, 3)]


def test_an_output_that_nobody_reads_lives_during_its_step() -> None:
    made = plan({"x": 8, "a": 8, "y": 8}, [kernel("k0", "x", "a"), kernel("k1", "x", "y")])
    assert (made.buffer["a"].first_step, made.buffer["a"].last_step) == (0, 1)


def test_an_element_wise_kernel_shares_the_buffer_of_its_input() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 8, "y": 4},
        [
            kernel("conv", "x", "a"),
            kernel("relu", "a", "b", in_place=[("a", "b")]),
            kernel("pool", "b", "y"),
        ],
    )
    assert place_of(made.buffer["b"]) == ("sram", 0, "a")
    assert made.memories[0].height_bytes == 8


def test_a_kernel_does_not_overwrite_what_is_read_later() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 8, "y": 4},
        [
            kernel("conv", "x", "a"),
            kernel("relu", "a", "b", in_place=[("a", "b")]),
            kernel("add", "a b", "y"),
        ],
    )
    assert place_of(made.buffer["b"]) == ("sram", 8, "")


def test_the_last_kernel_does_not_overwrite_an_output() -> None:
    made = plan(
        {"x": 8, "y": 8, "z": 8},
        [kernel("conv", "x", "y"), kernel("relu", "y", "z", in_place=[("y", "z")])],
        outputs="y",
    )
    assert place_of(made.buffer["z"]) == ("sram", 0, "")


def test_the_input_that_is_dead_is_the_one_overwritten() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 8, "c": 8, "y": 4},
        [
            kernel("k0", "x", "a"),
            kernel("k1", "a", "b"),
            kernel("add", "a b", "c", in_place=[("a", "c"), ("b", "c")]),
            kernel("k3", "a c", "y"),
        ],
    )
    assert made.buffer["c"].alias_of == "b"


def test_the_callers_input_is_never_overwritten() -> None:
    made = plan(
        {"x": 8, "a": 8, "y": 4},
        [kernel("relu", "x", "a", in_place=[("x", "a")]), kernel("pool", "a", "y")],
    )
    assert place_of(made.buffer["a"]) == ("sram", 0, "")


def test_an_input_in_the_arena_may_be_overwritten() -> None:
    made = plan(
        {"x": 8, "a": 8, "y": 4},
        [kernel("relu", "x", "a", in_place=[("x", "a")]), kernel("pool", "a", "y")],
        options=Options(input="arena"),
    )
    assert place_of(made.buffer["x"]) == ("sram", 0, "")
    assert place_of(made.buffer["a"]) == ("sram", 0, "x")
    assert made.memories[0].height_bytes == 8


def test_a_smaller_output_is_not_in_place() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 4, "y": 4},
        [
            kernel("k0", "x", "a"),
            kernel("crop", "a", "b", in_place=[("a", "b")]),
            kernel("k2", "b", "y"),
        ],
    )
    assert made.buffer["b"].alias_of == ""


def test_a_view_needs_no_code_and_lies_in_its_source() -> None:
    made = plan(
        {"x": 8, "a": 12, "b": 4, "y": 4},
        [
            kernel("conv", "x", "a"),
            kernel("slice", "a", "b", alias=Alias("a", 8)),
            kernel("pool", "b", "y"),
        ],
    )
    assert [step.is_code for step in made.steps] == [True, False, True]
    assert place_of(made.buffer["b"]) == ("sram", 8, "a")


def test_a_view_of_the_callers_input_is_read_where_it_is() -> None:
    made = plan(
        {"x": 8, "a": 4, "b": 4, "y": 4},
        [
            kernel("slice", "x", "a", alias=Alias("x", 4)),
            kernel("relu", "a", "b", in_place=[("a", "b")]),
            kernel("pool", "b", "y"),
        ],
    )
    assert place_of(made.buffer["a"]) == ("caller", 4, "x")
    assert made.buffer["b"].memory == "sram"


def test_an_output_that_is_the_input_renamed_is_copied() -> None:
    made = plan({"x": 8, "y": 8}, [kernel("reshape", "x", "y", alias=Alias("x", 0))])
    assert made.steps[0].is_code
    assert place_of(made.buffer["y"]) == ("caller", 0, "")


def test_an_output_in_the_arena_is_never_a_view_of_the_input() -> None:
    made = plan(
        {"x": 8, "y": 8},
        [kernel("reshape", "x", "y", alias=Alias("x", 0))],
        options=Options(input="arena", output="arena"),
    )
    assert made.steps[0].is_code
    assert made.memories[0].height_bytes == 16


def test_two_outputs_of_equal_content_are_two_buffers() -> None:
    made = plan(
        {"x": 8, "y": 8, "z": 8},
        [kernel("conv", "x", "y"), kernel("flatten", "y", "z", alias=Alias("y", 0))],
        outputs="y z",
    )
    assert [step.is_code for step in made.steps] == [True, True]
    assert place_of(made.buffer["z"]) == ("caller", 0, "")


def test_the_source_of_an_output_is_written_into_the_callers_buffer() -> None:
    made = plan(
        {"x": 8, "a": 8, "y": 8},
        [kernel("conv", "x", "a"), kernel("flatten", "a", "y", alias=Alias("a", 0))],
    )
    assert [step.is_code for step in made.steps] == [True, False]
    assert place_of(made.buffer["a"]) == ("caller", 0, "y")
    assert made.memories[0].height_bytes == 0


def test_an_output_that_is_a_part_of_another_tensor_is_copied() -> None:
    made = plan(
        {"x": 8, "a": 8, "y": 4},
        [kernel("conv", "x", "a"), kernel("slice", "a", "y", alias=Alias("a", 0))],
    )
    assert [step.is_code for step in made.steps] == [True, True]
    assert made.buffer["a"].memory == "sram"


def test_the_callers_array_holds_one_type() -> None:
    made = plan(
        {"x": 8, "a": 8, "y": 8},
        [kernel("conv", "x", "a"), kernel("cast", "a", "y", in_place=[("a", "y")])],
        dtypes={"a": "float32", "y": "int32"},
    )
    assert made.buffer["a"].memory == "sram"


def test_a_view_of_a_constant_is_copied() -> None:
    made = plan(
        {"x": 8, "w": 8, "a": 8, "y": 8},
        [kernel("reshape", "", "a", alias=Alias("w", 0)), kernel("add", "x a", "y")],
    )
    assert made.steps[0].is_code


def test_a_view_at_an_odd_byte_of_wide_elements_is_copied() -> None:
    made = plan(
        {"x": 8, "a": 16, "b": 2, "y": 8},
        [
            kernel("conv", "x", "a"),
            kernel("view", "a", "b", alias=Alias("a", 2)),
            kernel("pool", "b", "y"),
        ],
        dtypes={"b": "float32"},
    )
    assert made.steps[1].is_code
    assert made.buffer["b"].offset_bytes % 4 == 0


def test_a_part_may_be_overwritten_while_the_other_part_lives() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 4, "c": 4, "d": 4, "y": 4},
        [
            kernel("conv", "x", "a"),
            kernel("split0", "a", "b", alias=Alias("a", 0)),
            kernel("split1", "a", "c", alias=Alias("a", 4)),
            kernel("relu", "b", "d", in_place=[("b", "d")]),
            kernel("add", "c d", "y"),
        ],
    )
    assert place_of(made.buffer["d"]) == ("sram", 0, "a")
    assert made.memories[0].height_bytes == 8


def test_a_kernel_is_not_in_place_over_a_view_that_it_reads_too() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 8, "c": 8, "y": 4},
        [
            kernel("conv", "x", "a"),
            kernel("transpose", "a", "b", alias=Alias("a", 0)),
            kernel("add", "a b", "c", in_place=[("a", "c")]),
            kernel("pool", "c", "y"),
        ],
    )
    assert made.buffer["c"].alias_of == ""


def test_a_kernel_of_several_tiles_is_not_in_place() -> None:
    graph = Graph(
        "net",
        ("x",),
        ("y",),
        tuple(Tensor(name, "int8", (8,)) for name in "xaby"),
        (),
        (),
    )
    profile = Profile(
        (
            kernel("conv", "x", "a"),
            kernel("relu", "a", "b", in_place=[("a", "b")]),
            kernel("pool", "b", "y"),
        )
    )
    halves = [Tile("relu", n, (Box("i", 4 * n, 4 * n + 4),)) for n in (0, 1)]
    tiles = TilePlan((Tile("conv"), *halves, Tile("pool")))
    made = arrange(graph, profile, tiles, BOARD, Options())
    audit(graph, profile, tiles, made, BOARD, Options())
    assert [(step.kernel, step.tile) for step in made.steps] == [
        ("conv", 0),
        ("relu", 0),
        ("relu", 1),
        ("pool", 0),
    ]
    assert made.buffer["b"].alias_of == ""
    assert (made.buffer["a"].last_step, made.buffer["b"].first_step) == (3, 1)


def test_an_output_in_the_arena_lies_clear_of_the_next_input() -> None:
    made = plan(
        {"x": 8, "a": 8, "y": 8},
        [kernel("k0", "x", "a"), kernel("k1", "a", "y")],
        options=Options(input="arena", output="arena"),
    )
    x, y = made.buffer["x"], made.buffer["y"]
    assert (y.first_step, y.last_step) == (1, 2)
    assert x.offset_bytes != y.offset_bytes


def test_starts_are_aligned_as_the_memory_says() -> None:
    target = Target("board", (Memory("dtcm", 4096, align_bytes=32),))
    made = plan(
        {"x": 8, "a": 5, "b": 5, "y": 8},
        [kernel("k0", "x", "a"), kernel("k1", "a", "b"), kernel("k2", "b", "y")],
        target=target,
    )
    assert sorted(made.buffer[name].offset_bytes for name in "ab") == [0, 32]
    assert made.memories[0].height_bytes == made.memories[0].bound_bytes == 37


def test_the_height_is_what_sizeof_says() -> None:
    made = plan(
        {"x": 8, "a": 2, "b": 5, "y": 8},
        [kernel("k0", "x", "a"), kernel("k1", "a", "b"), kernel("k2", "b", "y")],
        dtypes={"a": "float32"},
    )
    assert made.memories[0].height_bytes == made.memories[0].bound_bytes == 16


def test_the_arena_lies_in_the_nearest_memory_that_may_hold_it() -> None:
    target = Target("board", (Memory("itcm", 4096, holds=("weights",)), Memory("sram", 8192)))
    made = plan(
        {"x": 8, "a": 8, "y": 8}, [kernel("k0", "x", "a"), kernel("k1", "a", "y")], target=target
    )
    assert [use.memory for use in made.memories] == ["sram"]


def test_a_target_without_memories_has_an_arena_without_a_budget() -> None:
    made = plan(
        {"x": 8, "a": 8, "y": 8},
        [kernel("k0", "x", "a"), kernel("k1", "a", "y")],
        target=Target("host"),
    )
    assert [(use.memory, use.budget_bytes) for use in made.memories] == [("ram", None)]


def test_no_memory_may_hold_the_arena() -> None:
    with pytest.raises(UserError) as caught:
        plan(
            {"x": 8, "y": 8},
            [kernel("k", "x", "y")],
            target=Target("board", (Memory("itcm", 4096, holds=("weights",)),)),
        )
    assert str(caught.value) == (
        "error: target 'board' has no memory that may hold the arena\n"
        "  why: each of its memories (itcm) has 'holds' without 'arena'\n"
        "  fix: add arena to the 'holds' of itcm"
    )


def test_the_peak_is_a_step_with_code() -> None:
    made = plan(
        {"x": 8, "a": 8, "b": 8, "y": 4},
        [
            kernel("conv", "x", "a"),
            kernel("reshape", "a", "b", alias=Alias("a", 0)),
            kernel("pool", "b", "y"),
        ],
    )
    assert made.memories[0].peak_step == 0


SHRINKING = [
    kernel("k0", "x", "a"),
    kernel("k1", "x", "b"),
    kernel("k2", "a", "c"),
    kernel("k3", "b", "d"),
    kernel("k4", "c d", "y"),
]


def test_another_order_is_taken_if_it_makes_the_arena_smaller() -> None:
    sizes = {"x": 8, "a": 80, "b": 80, "c": 8, "d": 8, "y": 8}
    made = plan(sizes, SHRINKING)
    assert [step.kernel for step in made.steps] == ["k0", "k2", "k1", "k3", "k4"]
    assert [step.number for step in made.steps] == [0, 1, 2, 3, 4]
    assert made.memories[0].height_bytes == made.memories[0].bound_bytes == 96


def test_the_order_of_the_profile_is_kept_if_no_other_makes_the_arena_smaller() -> None:
    made = plan({"x": 8, "a": 8, "b": 8, "c": 8, "d": 8, "y": 8}, SHRINKING)
    assert [step.kernel for step in made.steps] == ["k0", "k1", "k2", "k3", "k4"]


def test_two_hundred_kernels_are_scheduled_at_the_bound() -> None:
    names = [f"t{i}" for i in range(200)]
    sizes = {"x": 64, **{name: 100 + 37 * (i % 11) for i, name in enumerate(names)}, "y": 4}
    kernels = [kernel("k0", "x", "t0"), kernel("k1", "t0", "t1")]
    kernels += [
        kernel(f"k{i}", f"t{i - 1} t{i - 2}", f"t{i}", in_place=[(f"t{i - 2}", f"t{i}")])
        for i in range(2, 200)
    ]
    made = plan(sizes, [*kernels, kernel("last", "t199", "y")])
    assert made.memories[0].height_bytes == made.memories[0].bound_bytes
