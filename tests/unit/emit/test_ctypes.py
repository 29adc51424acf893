import math

import pytest

from dlbuild.base.errors import UserError
from dlbuild.emit.ctypes import number, storage
from dlbuild.rulebook.value import Type


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0, "f32", "0.0F"),
        (0.1, "f32", "0.1F"),
        (1e-5, "f32", "1e-05F"),
        (1 / 3, "f32", "0.33333334F"),
        (1 / 3, "f64", "0.3333333333333333"),
        (-math.inf, "f32", "-INFINITY"),
        (math.inf, "f64", "(double)INFINITY"),
        (math.nan, "f32", "NAN"),
        (-128, "i32", "-128"),
        (-(2**31), "i32", "INT32_MIN"),
        (2**31 - 1, "i32", "INT32_MAX"),
        (-5, "i64", "-INT64_C(5)"),
        (-(2**63), "i64", "INT64_MIN"),
        (7, "u32", "7U"),
        (7, "u64", "UINT64_C(7)"),
        (1, "bool", "true"),
    ],
)
def test_a_literal_gives_exactly_its_number(value: float, kind: Type, text: str) -> None:
    assert number(value, kind) == text


def test_an_element_type_without_c_is_refused_by_name() -> None:
    with pytest.raises(UserError) as refused:
        storage("bfloat16", "conv1")

    assert str(refused.value) == (
        "error: tensor 'conv1' has elements of type bfloat16, which generated C cannot hold yet\n"
        "  why: kernels read and write bool, the integers of 8 to 64 bits, float32 and float64\n"
        "  fix: convert the model to one of these types"
    )
