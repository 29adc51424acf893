from dlbuild.ir.schedule import Schedule, Step
from dlbuild.report.figures import figures_text
from dlbuild.run.bench import Figures, StepCost, Written, called_steps, written_places
from dlbuild.run.elf import Symbol
from dlbuild.run.lines import Range

STACK = (Symbol("board_stack_limit", 0x20000000, 0), Symbol("board_stack_end", 0x20001000, 0))
FIGURES = Figures(
    model="kws",
    target="board",
    unit="instructions",
    cost=2000,
    is_repeatable=True,
    macs=1000,
    steps=(StepCost(1, "conv2", 900, 1500), StepCost(2, "softmax3", 0, 500)),
    stack_bytes=100,
    stack_limit=120,
    arena_bytes=64,
    written=Written(60, 4, 90),
)


def test_written_bytes_are_told_apart_by_where_they_lie() -> None:
    names = [*STACK, Symbol("arena", 0x20001000, 64), Symbol("dlb_out", 0x20001040, 4)]
    ranges = [Range(0x20000F00, 16), Range(0x20001000, 68)]
    assert written_places(names, ranges) == Written(arena=64, outputs=4, stack=16)


def test_a_range_that_goes_beyond_the_arena_is_cited_with_its_rest() -> None:
    names = [*STACK, Symbol("arena", 0x20001000, 64), Symbol("other", 0x20001044, 8)]
    ranges = [Range(0x20001030, 0x18)]
    assert written_places(names, ranges) == Written(
        arena=16, outputs=0, stack=0, elsewhere=8, where=("0 B behind arena",)
    )


def test_the_callers_arena_is_the_arena() -> None:
    names = [*STACK, Symbol("dlb_arena", 0x20001000, 64)]
    assert written_places(names, [Range(0x20001000, 8)]) == Written(8, 0, 0)


def test_near_memories_are_of_the_arena() -> None:
    names = [*STACK, Symbol("near", 0x20001000, 64), Symbol("middle", 0x20002000, 64)]
    assert written_places(names, [Range(0x20001000, 8), Range(0x20002000, 4)]) == Written(12, 0, 0)


def test_errno_of_the_c_library_is_no_fault() -> None:
    names = [*STACK, Symbol("impure_data", 0x20001000, 96)]
    assert written_places(names, [Range(0x20001000, 4)]) == Written(0, 0, 0, errno=4)
    beyond = written_places(names, [Range(0x20001000, 8)])
    assert (beyond.errno, beyond.elsewhere, beyond.where) == (4, 4, ("in impure_data",))


def test_each_cost_is_that_of_one_call() -> None:
    steps = (
        Step(0, "conv1"),
        Step(1, "conv2", strip=1),
        Step(2, "pool3", strip=1),
        Step(3, "flatten4", is_code=False),
        Step(4, "conv5", strip=2),
        Step(5, "gemm6"),
    )
    plan = Schedule(steps, (), ())
    assert [[s.number for s in found] for found in called_steps(plan)] == [[0], [1, 2], [4], [5]]


def test_figures_are_printed_with_what_they_are() -> None:
    assert list(figures_text(FIGURES)) == [
        "kws@board: 2,000 instructions a run, 2.00 for each of 1,000 MACs",
        "  stack: 100 B overwritten, 120 B by 'dlbuild size'",
        "  written: 60 B of the arena's 64 B, 4 B of outputs, 90 B of stack, 0 B elsewhere",
        "  steps, with a hook between them: 2,000",
        "              step  MACs   cost   share  per MAC",
        "    conv2        1   900  1,500  75.0 %     1.67",
        "    softmax3     2     0    500  25.0 %        -",
    ]
    assert FIGURES.faults == ()
