"""Budgets: what is counted, and the whole text of the refusal."""

import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.stages.budget import WINDOWS, Demand, check_target, size_text, total
from dlbuild.stages.problem import Bytes
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tile import tile
from tests.kernels import kernel

KERNELS = (
    kernel("conv1", "in", "a"),
    kernel("dw1", "a", "b"),
    kernel("pw1", "b", "c"),
    kernel("dw2", "b c", "d"),
    kernel("fc", "d", "out"),
)
SIZES = {"in": 490, "a": 8000, "b": 8000, "c": 8000, "d": 6016, "out": 12}
NET = Graph(
    "kws",
    ("in",),
    ("out",),
    tuple(Tensor(name, "int8", (size,)) for name, size in SIZES.items()),
    tuple(Op(k.anchor, "Any", k.reads, k.writes) for k in KERNELS),
    (),
)


def refusal(target: Target) -> str:
    profile = Profile(KERNELS)
    tiles = tile(NET, profile, target, Options())
    with pytest.raises(UserError) as caught:
        schedule(NET, profile, tiles, target, Options())
    assert caught.value.exit_code == 1
    return str(caught.value)


def test_an_arena_above_its_budget_is_refused_with_the_peak_and_what_would_do() -> None:
    assert refusal(Target("board", (Memory("sram", 20480),))) == (
        "kws@board: error: the arena needs 22,016 B of sram, the budget is 20,480 B\n"
        "  peak: step 3 (Any 'dw2'), live: dw1 8,000 B, pw1 8,000 B, dw2 6,016 B\n"
        "  lower bound layer by layer: 22,016 B, reached\n"
        "  fix: set sram: 21.5 KiB"
    )


def test_a_declared_stack_counts_in_the_memory_of_the_arena() -> None:
    target = Target("board", (Memory("sram", 22016),), stack_bytes=1000)
    assert refusal(target) == (
        "kws@board: error: the arena needs 22,016 B and the stack 1,000 B of sram, "
        "the budget is 22,016 B\n"
        "  peak: step 3 (Any 'dw2'), live: dw1 8,000 B, pw1 8,000 B, dw2 6,016 B\n"
        "  lower bound layer by layer: 22,016 B, reached\n"
        "  fix: set sram: 23016 B"
    )


def test_the_budget_that_the_error_names_does() -> None:
    target = Target("board", (Memory("sram", 22016),))
    profile = Profile(KERNELS)
    made = schedule(NET, profile, tile(NET, profile, target, Options()), target, Options())
    assert made.memories[0].height_bytes == 22016


BOARD = Target("board", (Memory("sram", 32768), Memory("flash", 65536)), stack_bytes=2048)


def demand(model: str, size: int, share: str = "") -> Demand:
    return Demand(model, "sram", Bytes(size), share=share)


def test_models_of_one_target_add_up() -> None:
    demands = [demand("kws", 16000), demand("vww", 15000), demand("ad", 256)]
    with pytest.raises(UserError) as caught:
        check_target(BOARD, demands)
    assert str(caught.value) == (
        "board: error: the models need 33,304 B of sram, the budget is 32,768 B\n"
        "  kws: arena 16,000 B\n"
        "  vww: arena 15,000 B\n"
        "  ad: arena 256 B\n"
        "  stack: 2,048 B\n"
        "  fix: set sram: 33304 B, or give models that never run at once one 'share' group"
    )


def test_models_of_a_share_group_count_once() -> None:
    demands = [demand("kws", 16000, "a"), demand("vww", 15000, "a"), demand("ad", 256)]
    assert total(demands) == 16256
    check_target(BOARD, demands)


def test_code_and_tables_are_not_shared() -> None:
    demands = [
        Demand("kws", "flash", Bytes(40000), "code and tables", "a"),
        Demand("vww", "flash", Bytes(30000), "code and tables", "a"),
    ]
    with pytest.raises(UserError) as caught:
        check_target(BOARD, demands)
    assert str(caught.value) == (
        "board: error: the models need 70,000 B of flash, the budget is 65,536 B\n"
        "  kws: code and tables 40,000 B\n"
        "  vww: code and tables 30,000 B\n"
        "  fix: set flash: 70000 B"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(22016, "21.5 KiB"), (16384, "16 KiB"), (17024, "17024 B"), (0, "0 B"), (256, "256 B")],
)
def test_a_size_is_written_as_a_recipe_takes_it(size: int, text: str) -> None:
    assert size_text(size) == text


def test_windows_of_two_models_share_nothing_and_count_no_stack() -> None:
    tcm = Memory("tcm", 2048, holds=("tiles",))
    board = Target("board", (tcm, Memory("sram", 8192)), stack_bytes=512)
    here = [Demand(name, "tcm", Bytes(1500), WINDOWS, "group") for name in ("one", "two")]

    with pytest.raises(UserError) as caught:
        check_target(board, here)

    assert str(caught.value) == (
        "board: error: the models need 3,000 B of tcm, the budget is 2,048 B\n"
        "  one: windows and what stays 1,500 B\n"
        "  two: windows and what stays 1,500 B\n"
        "  fix: build each model for a target of its own, with its part of tcm"
    )
