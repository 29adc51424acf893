import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbuild.emit.names import LIMIT, RESERVED, Names, identifier, is_model_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("input_1", "input_1"),
        ("Identity", "identity"),
        ("Identity:0", "identity_0"),
        ("denseOutput", "dense_output"),
        ("ReLU", "relu"),
        ("conv2D", "conv2d"),
        ("model/dense//BiasAdd", "model_dense_bias_add"),
        ("0", "t0"),
        ("", "t"),
        ("///", "t"),
        ("größe", "gr_e"),
        ("float", "float_"),
        ("int8_t", "int8_t_"),
        ("__x", "x"),
        ("log10", "log10_"),
        ("a*/b", "a_b"),
    ],
)
def test_an_identifier_reads_like_its_name(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_the_end_of_a_long_name_stays() -> None:
    name = "StatefulPartitionedCall/mobilenet_1.00_224/conv_pw_13_relu/Relu6"

    assert identifier(name) == "mobilenet_1_00_224_conv_pw_13_relu_relu6"


def test_equal_and_case_colliding_names_get_numbers() -> None:
    names = Names()

    assert [names.give(n) for n in ("x", "X", "x", "x_2")] == ["x", "x_2", "x_3", "x_2_2"]


def test_a_taken_identifier_is_not_given() -> None:
    assert Names(taken=["Arena"]).give("arena") == "arena_2"


@pytest.mark.parametrize("name", ["kws", "a", "net_2"])
def test_a_model_name_is_a_lower_case_identifier(name: str) -> None:
    assert is_model_name(name)


@pytest.mark.parametrize("name", ["", "2net", "Kws", "_x", "a-b", "kws\n", "größe"])
def test_other_model_names_are_refused(name: str) -> None:
    assert not is_model_name(name)


@given(st.lists(st.text(), max_size=30))
def test_identifiers_are_legal_and_unique_in_any_case(texts: list[str]) -> None:
    names = Names()
    given_names = [names.give(text) for text in texts]

    for found in given_names:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", found)
        assert "__" not in found
        assert found not in RESERVED
        assert len(found) <= LIMIT + 8
    assert len({found.upper() for found in given_names}) == len(texts)


@given(st.lists(st.sampled_from(["x", "X", "x_2", "x_3", "2", "int", "for", "for_"]), max_size=12))
def test_crowded_names_stay_unique(texts: list[str]) -> None:
    names = Names()

    assert len({names.give(text).upper() for text in texts}) == len(texts)


@given(st.lists(st.text(), max_size=10))
def test_the_same_names_give_the_same_identifiers(texts: list[str]) -> None:
    first, second = Names(), Names()

    assert [first.give(t) for t in texts] == [second.give(t) for t in texts]
