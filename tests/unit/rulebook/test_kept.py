"""Terms that a softmax computes once: where the output can hold them, and where it cannot."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.weights import numpy_dtype
from dlbuild.rulebook.derive import in_place
from dlbuild.rulebook.fuse import fuse_epilogue
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.kept import kept
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import Wish, match
from dlbuild.rulebook.value import Call, walk

MakeGraph = Callable[..., Graph]
X = np.random.default_rng(1).normal(0, 3, (3, 17))


@pytest.fixture(scope="module", name="builtin")
def builtin_book() -> RuleBook:
    return load_rules([builtin_folder()])


def instance(
    builtin: RuleBook, graph: MakeGraph, kind: str, dtype: str, **attributes: int
) -> Instance:
    op = Op("s", kind, ("x",), ("y",), tuple(attributes.items()))
    found = graph(op, {"x": f"{dtype} 3x17", "y": f"{dtype} 3x17"})
    return match(op, found, builtin, Wish())


def exponentials(found: Instance) -> int:
    """How often the steps of an instance compute an exponential."""
    (nest,) = found.nests
    values = [let.value for step in nest.steps for let in step.lets]
    values += [store.value for step in nest.steps for store in step.stores]
    values += [fold.each for step in nest.steps for fold in step.folds]
    return sum(isinstance(e, Call) and e.function == "exp" for v in values for e in walk(v))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_softmax_computes_each_term_once_and_gives_the_same_bits(
    builtin: RuleBook, graph: MakeGraph, dtype: str
) -> None:
    given = instance(builtin, graph, "Softmax", dtype)
    made = kept(given)
    assert (exponentials(given), exponentials(made)) == (2, 1)
    x = X.astype(dtype)
    assert interpret(made, {"x": x})["y"].tobytes() == interpret(given, {"x": x})["y"].tobytes()


def test_the_input_may_still_lie_where_the_output_does(builtin: RuleBook, graph: MakeGraph) -> None:
    given = instance(builtin, graph, "Softmax", "float32")
    assert in_place(given, {}) == in_place(kept(given), {}) == (("x", "y"),)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_terms_of_a_narrow_type_are_rounded_once_each(
    builtin: RuleBook, graph: MakeGraph, dtype: str
) -> None:
    made = kept(instance(builtin, graph, "Softmax", dtype))
    x = X.astype(numpy_dtype(dtype))
    wide = x.astype(np.float32)
    terms = np.exp(wide - wide.max(-1, keepdims=True))
    total = np.zeros((3, 1), np.float32)
    for column in range(17):
        total += terms[:, column : column + 1]
    due = (terms.astype(x.dtype).astype(np.float32) / total).astype(x.dtype)
    np.testing.assert_array_equal(interpret(made, {"x": x})["y"], due)


def cast_to(builtin: RuleBook, graph: MakeGraph, given: Instance, dtype: str) -> Instance:
    """A softmax of float32 whose results are stored as another type at once."""
    op = Op("c", "CastLike", ("y", "z0"), ("z",), ())
    shapes = {"y": "float32 3x17", "z0": f"{dtype} 1", "z": f"{dtype} 3x17"}
    tail = match(op, graph(op, shapes), builtin, Wish())
    fused = fuse_epilogue(given, tail, "y")
    return replace(fused, operands=tuple(o for o in fused.operands if o.tensor != "z0"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8e4m3fn", "int8"])
def test_an_output_narrower_than_the_model_computes_holds_no_terms(
    builtin: RuleBook, graph: MakeGraph, dtype: str
) -> None:
    fused = cast_to(builtin, graph, instance(builtin, graph, "Softmax", "float32"), dtype)
    assert kept(fused) is fused
    assert exponentials(fused) == 2


def test_nothing_is_kept_where_nothing_dear_is_repeated(
    builtin: RuleBook, graph: MakeGraph
) -> None:
    for kind in ("LogSoftmax", "Hardmax"):
        given = instance(builtin, graph, kind, "float32")
        assert kept(given) is given
