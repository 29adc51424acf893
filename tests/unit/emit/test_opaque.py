"""How templates of their own reach elements."""

import pytest

from dlbuild.emit.opaque import Elements
from dlbuild.rulebook.instance import Operand


def elements(dtype: str, *, by_value: bool = False) -> Elements:
    operands = {
        "x": Operand("x", "net/x", dtype, (4,), "input"),
        "y": Operand("y", "net/y", dtype, (4,), "output"),
    }
    return Elements(operands, {"x": "x", "y": "y"}, frozenset({"x"} if by_value else ()))


@pytest.mark.parametrize(
    ("dtype", "load", "store"),
    [
        ("float32", "x[i]", "y[i] = v;"),
        ("int8", "x[i]", "y[i] = (int8_t)(v);"),
        ("float16", "float16_to_f32(x[i])", "y[i] = f32_to_float16(v);"),
        ("int4", "load_int4(x, i)", "store_int4(y, i, v);"),
    ],
)
def test_elements_are_reached_as_their_type_is_stored(dtype: str, load: str, store: str) -> None:
    of = elements(dtype)
    assert of.load("x", "i") == load
    assert of.store("y", "i", "v") == store


def test_a_number_that_is_passed_by_value_has_no_address() -> None:
    assert elements("float32", by_value=True).load("x", "0") == "x"
    assert elements("uint2", by_value=True).load("x", "0") == "uint2_value(x)"


def test_a_copy_keeps_the_bits() -> None:
    assert elements("float16").copy("y", "i", "x", "k") == "y[i] = x[k];"
    assert elements("int4").copy("y", "i", "x", "k") == "store_int4(y, i, load_int4(x, k));"


def test_an_index_is_an_int32() -> None:
    assert elements("int64").index("x", "i") == "(int32_t)x[i]"
    assert elements("int32").index("x", "i") == "x[i]"
