"""When a hand-written kernel takes the place of a fold, and when its nest is printed instead."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Fact, Graph, Op, Tensor
from dlbuild.ir.profile import Handwriting, Kernel
from dlbuild.ir.tile_plan import (
    Cut,
    Layer,
    Strip,
    Tile,
    TilePlan,
    Tiling,
    handwritten_kernel,
)
from dlbuild.ir.weights import Array
from dlbuild.rulebook.handwritten import obstacle, rest_of, with_kernel
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.interpret import make
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import Wish, match
from dlbuild.rulebook.samples import sampled
from dlbuild.rulebook.value import Local, walk

ROOT = Path(__file__).parents[3]
FACTS = (Fact("all_zero", ("wz",)), Fact("narrow", ("w",)))


@pytest.fixture(scope="module")
def book() -> RuleBook:
    return load_rules([ROOT])


def conv(
    book: RuleBook,
    features: frozenset[str],
    facts: tuple[Fact, ...] = FACTS,
    *,
    is_small: bool = False,
) -> Instance:
    """Return a convolution of eight channels to four."""
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "x": ("int8", (1, 8, 5, 5)),
        "xs": ("float32", ()),
        "xz": ("int8", ()),
        "w": ("int8", (4, 8, 1, 1)),
        "ws": ("float32", ()),
        "wz": ("int8", ()),
        "ys": ("float32", ()),
        "yz": ("int8", ()),
        "b": ("int32", (4,)),
        "y": ("int8", (1, 4, 5, 5)),
    }
    names = tuple(shapes)
    tensors = tuple(Tensor(name, dtype, shape) for name, (dtype, shape) in shapes.items())
    op = Op("node", "QLinearConv", names[:-1], names[-1:], (), "", 13)
    graph = Graph("g", ("x",), ("y",), tensors, (op,), names[1:-1], (), facts)
    return match(op, graph, book, Wish(features, "fixed", is_small))


@pytest.mark.parametrize(("is_small", "points"), [(False, [3, 2, 1, 0]), (True, [1, 2, 3, 0])])
def test_the_usual_form_is_the_fastest_or_that_of_the_fewest_points(
    book: RuleBook, points: list[int], *, is_small: bool
) -> None:
    found = conv(book, frozenset({"dsp"}), is_small=is_small).handwritten
    assert found is not None
    assert [form.points for form in found.forms] == points


def test_a_core_without_dsp_instructions_has_the_nest(book: RuleBook) -> None:
    assert conv(book, frozenset()).handwritten is None
    assert conv(book, frozenset({"fpu", "dsp"})).handwritten is not None


def test_weights_that_may_be_the_least_of_their_type_have_the_nest(book: RuleBook) -> None:
    found = conv(book, frozenset({"dsp"}), FACTS[:1])
    assert found.handwritten is None


def test_another_order_in_memory_is_an_obstacle(book: RuleBook) -> None:
    found = conv(book, frozenset({"dsp"}))
    preferred = {o.name: o.order for o in found.operands if o.order}
    assert obstacle(found, preferred) == ""
    assert obstacle(found, {}) == "x lies in another order than it needs"


def test_what_is_fused_before_the_fold_is_an_obstacle(book: RuleBook) -> None:
    found = conv(book, frozenset({"dsp"}))
    (nest,) = found.nests
    (fold, *rest) = nest.steps
    other = replace(fold, over=tuple(reversed(fold.over)))
    changed = replace(found, nests=(replace(nest, steps=(other, *rest)),))
    orders = {o.name: o.order for o in found.operands if o.order}
    assert obstacle(changed, orders) == "its inputs are computed where it reads them"


def test_the_rest_is_made_from_the_result_and_no_bias_is_added_again(book: RuleBook) -> None:
    found = conv(book, frozenset({"dsp"}))
    kernel = found.handwritten
    assert kernel is not None
    rest = rest_of(found.nests[0], kernel)
    values = [part for step in rest.steps for s in step.stores for part in walk(s.value)]
    assert Local("acc", "i32") in values
    assert all(getattr(part, "access", "") != "b" for part in values)


def test_weights_are_packed_four_to_a_word_and_the_zero_point_is_in_the_start(
    book: RuleBook,
) -> None:
    found = conv(book, frozenset({"dsp"}))
    kernel = found.handwritten
    assert kernel is not None
    w = np.arange(-16, 16, dtype=np.int8).reshape(4, 8, 1, 1)
    bias = np.array([5, 6, 7, 8], np.int32)
    held: dict[str, Array] = {"w": w, "xz": np.array(3, np.int8), "b": bias}
    instance = replace(found, operands=(*found.operands, *kernel.operands), made=kernel.made)
    made = make(instance, held)
    taps = w.reshape(4, 8).astype(np.int64)
    halves = 256 * taps[:, 1::2] + taps[:, ::2]
    words = (halves[:, 1::2] << 16) + (halves[:, ::2] & 0xFFFF)
    assert made["words"].tolist() == words.reshape(2, 2, 2).transpose(0, 2, 1).tolist()
    constant = (127 * taps[:, ::2].sum(1)) >> 8
    assert made["start"].tolist() == (bias - 3 * taps.sum(1) - constant).tolist()


KERNEL = Kernel(
    *("conv1", "node", (), (), "conv.yaml#QLinearConv", "fixed", ("x",), ("y",), ("w",)),
    *(0, 0, 0, 0, 0),
    handwriting=Handwriting("conv_dsp", rows=("oh",)),
)


def strip(axis: str, *sums: str) -> TilePlan:
    """Return a plan of one layer in rows along an axis."""
    layer = Layer("conv1", axis, 5, (), "y", sums)
    return TilePlan((Tile("conv1"),), (Strip((layer,)),))


def test_rows_along_an_axis_that_the_template_knows_are_hand_written() -> None:
    assert handwritten_kernel(KERNEL, strip("oh")) is KERNEL.handwriting
    assert handwritten_kernel(KERNEL, strip("ow")) is None
    assert handwritten_kernel(KERNEL, strip("oh", "conv1 acc_sums")) is None


def test_windows_in_a_near_memory_are_the_nests() -> None:
    tiling = Tiling("conv1", "l1", (Cut("oh", 2),), (), 3, 0, 0)
    assert handwritten_kernel(KERNEL, TilePlan((Tile("conv1"),), tilings=(tiling,))) is None


MINE = """\
op: Mine
summary: y = sum of x
inputs: {x: {shape: [N], dtype: T}}
outputs: {y: {shape: [M], dtype: T}}
domain: {m: M}
reduce: {n: N}
read: {x: n}
steps:
  - {over: [n], fold: {acc: [0, acc + x]}}
  - y: acc
kernels:
  - name: fast
    uses: [x]
    scratch: {one: {dtype: int32, count: N}}
    at_once: [{points: 1, cost: 1, when: N > 4}, {points: 0, cost: 2, when: N > 2}]
    result: acc
    template: kernels/fast.c.j2
"""


def own_book(folder: Path, text: str) -> RuleBook:
    rules = folder / "rules" / "ops"
    rules.mkdir(parents=True)
    (rules / "mine.yaml").write_text(text)
    return load_rules([folder])


def test_a_kernel_has_one_working_memory_at_most(tmp_path: Path) -> None:
    text = MINE.replace("count: N}}", "count: N}, two: {dtype: int32, count: N}}")
    with pytest.raises(UserError) as caught:
        own_book(tmp_path, text)
    assert "a kernel has one scratch at most" in str(caught.value)


@pytest.mark.parametrize(("extent", "points"), [(5, [1, 0]), (3, [0]), (2, [])])
def test_a_kernel_goes_in_the_forms_that_are_possible(
    tmp_path: Path, extent: int, points: list[int]
) -> None:
    op = Op("node", "Mine", ("x",), ("y",))
    tensors = (Tensor("x", "int32", (extent,)), Tensor("y", "int32", (1,)))
    graph = Graph("case", ("x",), ("y",), tensors, (op,), ())

    found = match(op, graph, own_book(tmp_path, MINE), Wish()).handwritten

    assert [form.points for form in (found.forms if found else ())] == points


MANY = """\
op: Mine
summary: y = sum of x, and more
inputs: {x: {shape: [B, N], dtype: T}}
outputs: {y: {shape: [B, M], dtype: T}}
domain: {b: B, m: M}
reduce: {n: N}
read: {x: "b, n"}
steps:
  - {over: [n], fold: {acc: [0, acc + x]}}
  - y: acc
kernels:
  - name: fast
    uses: [x]
    scratch: {one: {dtype: int32, count: N, rows: 1}}
    samples: b
    keep: [m]
    rows: [m]
    result: acc
    template: kernels/fast.c.j2
"""


def of_samples(folder: Path, samples: int, text: str = MANY) -> Instance:
    op = Op("node", "Mine", ("x",), ("y",))
    tensors = (Tensor("x", "int32", (samples, 5)), Tensor("y", "int32", (samples, 3)))
    graph = Graph("case", ("x",), ("y",), tensors, (op,), ())
    return match(op, graph, own_book(folder, text), Wish())


@pytest.mark.parametrize(("samples", "rows", "count"), [(1, ("m",), 1), (4, ("b",), 5)])
def test_rows_of_several_samples_are_samples(
    tmp_path: Path, samples: int, rows: tuple[str, ...], count: int
) -> None:
    found = of_samples(tmp_path, samples).handwritten
    assert found is not None
    assert found.rows == rows
    assert found.forms[0].count_of(0) == count


def test_each_sample_begins_where_its_axis_says(tmp_path: Path) -> None:
    instance = with_kernel(of_samples(tmp_path, 4))
    found = sampled(instance)
    assert found is not None
    assert found.one.nests[0].domain == ("m",)
    assert {name: start.index for name, start in found.starts.items()} == {
        "x": (Index.axis("b"), Index()),
        "y": (Index.axis("b"), Index()),
    }


@pytest.mark.parametrize("value", ["acc + index(b)", "acc + offset(x)"])
def test_what_differs_from_sample_to_sample_has_the_nest(tmp_path: Path, value: str) -> None:
    instance = of_samples(tmp_path, 4, MANY.replace("- y: acc", f"- y: {value}"))
    assert instance.handwritten is not None
    assert obstacle(instance, {}) == "what follows does not go sample by sample"


def test_samples_lie_along_an_axis_of_the_domain(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no axis 'd'"):
        own_book(tmp_path, MANY.replace("samples: b", "samples: d"))
