"""Results whose size only the run knows: the greatest extents and a count."""

from collections.abc import Mapping
from typing import Protocol

import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Count
from dlbuild.ir.weights import Array
from dlbuild.stages.parse import Parsed

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


class Reader(Protocol):
    def read(self, text: str, constants: Mapping[str, Array] | None = None) -> Parsed: ...


def found(reader: Reader, body: str, outputs: str) -> Parsed:
    text = f"""{HEAD} g (float[2,3] x, bool[2] c, bool b) => ({outputs})
    <float[3] three = {{1, 2, 3}},
     int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[2] flat = {{-1, 2}}>
    {{ {body} }}"""
    return reader.read(text)


def test_a_result_gets_its_greatest_extents_and_a_count_behind_it(reader: Reader) -> None:
    graph = found(reader, "y = NonZero(x)", "int64[2,n] y").graph
    assert graph.outputs == ("y", "y_count")
    assert graph.tensor["y"].shape == (2, 6)
    assert (graph.tensor["y_count"].dtype, graph.tensor["y_count"].shape) == ("int32", ())
    assert graph.counts == (Count("y", 1, "y_count"),)


@pytest.mark.parametrize(
    ("body", "axis"),
    [
        ("y = Abs(k)", 0),
        ("y = Transpose(k)", 1),
        ("n = Neg(k) y = Mul(k, n)", 0),
        ("y = Sub(k, three)", 0),
        ("r = ReduceSum<keepdims = 0>(k, one) y = Neg(r)", 0),
        ("y = Unsqueeze(k, zero)", 1),
        ("n = NonZero(x) t = Transpose(n) y = Gather<axis = 1>(t, one)", 0),
    ],
)
def test_what_is_computed_slice_by_slice_has_the_same_count(
    reader: Reader, body: str, axis: int
) -> None:
    graph = found(reader, f"k = Compress<axis = 0>(x, c) {body}", "float[a,b] y").graph
    (name, count) = graph.outputs
    assert graph.count[name] == Count(name, axis, count)


def test_two_outputs_of_one_count_are_followed_by_one(reader: Reader) -> None:
    body = "k = Compress<axis = 0>(x, c) y = Abs(k)"
    assert found(reader, body, "float[n,3] k, float[n,3] y").graph.outputs == ("k", "k_count", "y")


def test_an_output_listed_twice_is_there_twice_with_one_count(reader: Reader) -> None:
    graph = found(reader, "y = NonZero(x)", "int64[2,n] y, int64[2,n] y").graph
    assert graph.outputs == ("y", "y_count", "y_output")
    assert graph.count["y_output"] == Count("y_output", 1, "y_count")


@pytest.mark.parametrize(
    "body",
    [
        "[bad] y = Shape(k)",
        "[bad] y = Softmax<axis = 0>(k)",
        "[bad] y = ReduceMax<axes = [0]>(k)",
        "[bad] y = Reshape(k, flat)",
        "[bad] y = Concat<axis = 0>(x, k)",
        "[bad] y = Gather<axis = 0>(k, zero)",
        "[bad] y = NonZero(k)",
        "[bad] y = Add(k, x)",
        "n = Neg(x) [bad] y = Where(b, k, n)",
    ],
)
def test_what_needs_more_than_a_slice_is_refused(reader: Reader, body: str) -> None:
    with pytest.raises(UserError) as caught:
        found(reader, f"k = Compress<axis = 0>(x, c) {body}", "float[a,b] y")
    assert str(caught.value).partition("m.onnx: ")[2].startswith("node 'bad' (")
    assert str(caught.value).partition("error: ")[2] == (
        "how many slices axis 0 of 'k' has is only known when the model runs\n"
        "  why: this operator would compute with what lies behind the last one; only operators "
        "that make each slice of their result from the same slice can follow\n"
        "  fix: let 'k' be an output of the model, and compute the rest behind it in C"
    )


def test_two_counts_in_one_result_are_refused(reader: Reader) -> None:
    body = "k = Compress<axis = 0>(x, c) m = Not(c) l = Compress<axis = 0>(x, m) y = Add(k, l)"
    with pytest.raises(UserError, match="is only known when the model runs"):
        found(reader, body, "float[a,b] y")
