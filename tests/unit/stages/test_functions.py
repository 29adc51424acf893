from dataclasses import replace

import pytest

from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance, Loop, Nest, Operand, Store
from dlbuild.rulebook.value import Number
from dlbuild.stages.functions import _likeness, unnamed

OUTPUT = Operand("y", "out", "float32", (4,), "output")


def filling(number: float) -> Instance:
    access = {"y": Access("y", (4,), (Index.axis("n"),))}
    step = Loop((), stores=(Store("y", Number(number, "f32")),))
    nest = Nest(("n",), (), {"n": 4}, access, (step,))
    return Instance("r", "", "Fill", "", "", "", ("node",), (OUTPUT,), {"N": 4}, (nest,))


def likeness(instance: Instance, *, in_table: str = "", order: tuple[int, ...] = (0,)) -> str:
    return _likeness(instance, {"y": order}, frozenset("y"), frozenset(in_table))


def test_kernels_of_other_nodes_and_tensors_are_alike() -> None:
    other = replace(filling(1.5), ops=("later",), operands=(replace(OUTPUT, tensor="z"),))
    assert likeness(other) == likeness(filling(1.5))


def test_numbers_that_are_equal_but_print_otherwise_are_not_alike() -> None:
    assert filling(0.0) == filling(-0.0)
    assert likeness(filling(0.0)) != likeness(filling(-0.0))
    assert filling(1) == filling(1.0)
    assert likeness(filling(1)) != likeness(filling(1.0))


def test_where_operands_lie_tells_kernels_apart() -> None:
    assert likeness(filling(1.5), in_table="y") != likeness(filling(1.5))
    assert likeness(filling(1.5), order=(1, 0)) != likeness(filling(1.5))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("void conv1(int conv12)", "void (int conv12)"),
        ("conv1_tiles(conv1_part_task_t)", "_tiles(_part_task_t)"),
        ("conv1_other conv1conv1 xconv1 conv1_", "conv1_other conv1conv1 xconv1 conv1_"),
    ],
)
def test_a_text_without_its_name_keeps_what_is_called_otherwise(text: str, rest: str) -> None:
    assert unnamed(text, "conv1") == rest
