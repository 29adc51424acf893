"""The search of tiles: exact, and what it finds moves what it says."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from math import prod

import pytest

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import match
from dlbuild.stages.tasks import Move, boxes, moves
from dlbuild.stages.tile_search import Near, search
from dlbuild.stages.tile_space import TileSpace, compulsory_bytes, divided, tile_space, window
from dlbuild.stages.tile_time import replayed
from dlbuild.stages.tile_work import SUM_CYCLES

ALIGN = 4


@pytest.fixture(scope="module")
def builtin_book() -> RuleBook:
    return load_rules([builtin_folder()])


def conv(book: RuleBook, groups: int = 1, stride: int = 1) -> Instance:
    x, m = (1, 4, 5, 3), 4
    w = (m, x[1] // groups, 3, 2)
    y = (1, m, (5 + 2 - 3) // stride + 1, (3 - 2) // stride + 1)
    shapes = {"x": x, "w": w, "b": (m,), "y": y}
    op = Op(
        "conv",
        "Conv",
        ("x", "w", "b"),
        ("y",),
        (("group", groups), ("pads", (1, 0, 1, 0)), ("strides", (stride, stride))),
        opset=17,
    )
    tensors = tuple(Tensor(name, "float32", shape) for name, shape in shapes.items())
    graph = Graph("net", ("x",), ("y",), tensors, (op,), ("w", "b"))
    return match(op, graph, book)


def space_of(instance: Instance) -> TileSpace:
    found = tile_space(instance, {}, frozenset({"w", "b"}))
    assert found is not None
    return found


@pytest.fixture(scope="module", params=[(1, 1), (1, 2), (2, 1), (4, 1)], ids=str)
def space(request: pytest.FixtureRequest, builtin_book: RuleBook) -> TileSpace:
    groups, stride = request.param
    return space_of(conv(builtin_book, groups, stride))


def near_bytes(
    space: TileSpace, loops: dict[str, int], doubled: frozenset[str] = frozenset()
) -> int:
    """Count buffers the slow way. doubled: operands of two."""
    total = 0
    whole = {a: loops.get(a, n) for a, n in space.nest.extent.items()}
    all_boxes = list(boxes(tuple(loops.items()), space.nest.extent))
    for moved in space.moved:
        windows = [window(moved, box) for box in all_boxes]
        axes = zip(*windows, strict=True)
        size = prod(max(last - first for first, last in axis) for axis in axes) * 4
        total += -(-size // ALIGN) * ALIGN * (2 if moved.operand.name in doubled else 1)
    if set(loops) & set(space.axes[len(space.axes) - space.reduce :]):
        total += prod(whole[a] for a in space.nest.domain) * 4
    return total


def every_cut(space: TileSpace) -> Iterator[dict[str, int]]:
    split = len(space.axes) - space.reduce
    for sizes in product(*space.sizes):
        chosen = dict(zip(space.axes, sizes, strict=True))
        for outer in permutations(space.axes[:split]):
            order = (*outer, *space.axes[split:])
            yield {a: chosen[a] for a in order if chosen[a] < space.nest.extent[a]}


@pytest.mark.parametrize("budget", [200, 500])
def test_no_cut_moves_less_than_the_one_found(space: TileSpace, budget: int) -> None:
    found = search(space, Near(budget, ALIGN))

    least = min(
        (
            sum(move.size_bytes for move in moves(space, tuple(loops.items())))
            for loops in every_cut(space)
            if near_bytes(space, loops) <= budget
        ),
        default=None,
    )
    # The windows of groups may be equal in neighbouring tasks; the search counts them again.
    assert (found is None) == (least is None)
    if found is not None and least is not None:
        assert sum(m.size_bytes for m in moves(space, found.loops)) <= found.traffic_bytes
        assert least <= found.traffic_bytes
        if space.cuts(space.moved[0]) != space.cuts(space.moved[-1]):
            assert found.traffic_bytes == least


def test_what_is_found_fits(space: TileSpace) -> None:
    found = search(space, Near(500, ALIGN))

    assert found is not None
    assert near_bytes(space, dict(found.loops), found.doubled) == found.near_bytes <= 500


def test_one_buffer_is_kept_where_that_moves_less_and_two_where_they_fit(
    builtin_book: RuleBook,
) -> None:
    space = space_of(conv(builtin_book))
    found = [
        [search(space, Near(size, ALIGN, buffers=most)) for most in (1, 2)]
        for size in range(100, 1200, 20)
    ]

    # Two buffers are never paid for in traffic.
    assert all((one and one.traffic_bytes) == (two and two.traffic_bytes) for one, two in found)
    doubled = {len(two.doubled) for _, two in found if two}
    assert min(doubled) == 0
    assert max(doubled) > 1


def test_with_room_for_all_each_byte_is_moved_once(space: TileSpace) -> None:
    found = search(space, Near(1 << 20, ALIGN))

    assert found is not None
    assert (found.tasks, found.loops) == (1, ())
    assert found.traffic_bytes >= compulsory_bytes(space)


def test_without_room_for_one_element_of_each_nothing_is_found(space: TileSpace) -> None:
    assert search(space, Near(12, ALIGN)) is None


def test_two_searches_find_the_same(space: TileSpace) -> None:
    assert search(space, Near(500, ALIGN)) == search(space, Near(500, ALIGN))


def brought(space: TileSpace, *loops: tuple[str, int]) -> list[tuple[int, str]]:
    return [(move.task, move.operand) for move in moves(space, loops)]


def test_weights_that_stay_are_not_moved_again(builtin_book: RuleBook) -> None:
    space = space_of(conv(builtin_book))

    moved = brought(space, (space.axes[1], 3))

    assert moved.count((0, "w")) == 1
    assert [operand for task, operand in moved if task > 0 and operand != "y"] == ["x"]


def test_an_input_that_stays_is_not_moved_again(builtin_book: RuleBook) -> None:
    space = space_of(conv(builtin_book))

    moved = brought(space, ("m", 2))

    assert [operand for task, operand in moved if task > 0] == ["w", "b", "y"]


def test_a_result_leaves_when_its_sums_are_complete(builtin_book: RuleBook) -> None:
    space = space_of(conv(builtin_book))

    found = [move for move in moves(space, (("c", 2),)) if move.operand == "y"]

    whole = tuple((0, n) for n in (1, 4, 5, 2))
    assert found == [Move(1, "y", whole, 4 * 5 * 2 * 4, is_output=True)]


def test_cuts_of_grouped_channels_follow_the_groups(builtin_book: RuleBook) -> None:
    space = space_of(conv(builtin_book, groups=2))

    assert space.sizes[space.axes.index("m")] == (1, 2, 4)


def test_the_kernels_own_axes_are_not_cut(builtin_book: RuleBook) -> None:
    space = space_of(conv(builtin_book))

    assert space.axes[len(space.axes) - space.reduce :] == ("c",)


def test_sizes_cut_an_extent_into_nearly_equal_parts() -> None:
    assert divided(10) == (1, 2, 3, 4, 5, 10)


def test_the_faster_of_two_is_chosen_by_time(builtin_book: RuleBook) -> None:
    space = space_of(conv(builtin_book))
    slow = Near(500, ALIGN, setup_cycles=1000, bytes_per_cycle=1.0, cycles=10, objective="time")

    found = search(space, slow)
    least = search(space, Near(500, ALIGN))

    assert found is not None
    assert least is not None
    cycles = [
        replayed(space, choice.loops, list(moves(space, choice.loops)), slow, choice.doubled)
        for choice in (found, least)
    ]
    assert cycles[0] < cycles[1]
    assert found.traffic_bytes >= least.traffic_bytes


def test_further_parts_of_sums_take_time(builtin_book: RuleBook) -> None:
    space = space_of(conv(builtin_book))
    near = Near(1 << 20, ALIGN, bytes_per_cycle=1.0, cycles=5000, task_cycles=0, objective="time")
    results, part = 4 * 5 * 2, moves(space, (("c", 2),))

    cycles = replayed(space, (("c", 2),), [m for m in part if m.is_output], near, frozenset())

    assert cycles == 5000 + results * SUM_CYCLES + results * 4
    found = search(space, replace(near, size_bytes=450))
    assert found is not None
    assert "c" not in dict(found.loops)


def test_of_cuts_that_move_the_same_the_one_is_taken_that_computes_least_again(
    builtin_book: RuleBook,
) -> None:
    space = space_of(conv(builtin_book))
    for size in range(150, 1000, 10):
        found = search(space, Near(size, ALIGN))
        if found is None or "c" not in dict(found.loops):
            continue
        others = (cut for cut in every_cut(space) if "c" not in cut)
        assert all(
            sum(m.size_bytes for m in moves(space, tuple(cut.items()))) > found.traffic_bytes
            for cut in others
            if near_bytes(space, cut) <= size
        )
