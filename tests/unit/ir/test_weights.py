"""The weights file."""

import ml_dtypes
import numpy as np
import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.weights import decode, dtype_name, encode, numpy_dtype


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_element_type_comes_back(name: str) -> None:
    array = np.array([[0, 1, 0], [1, 1, 0]]).astype(numpy_dtype(name))
    (found,) = decode(encode({"w": array})).values()
    assert dtype_name(found) == name
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()
    assert found.shape == (2, 3)


def test_special_values_come_back_bit_by_bit() -> None:
    array = np.array([0x7FC00001, 0xFF800000, 0x80000000, 1], np.uint32).view(np.float32)
    assert decode(encode({"w": array}))["w"].tobytes() == array.tobytes()


def test_a_scalar_stays_a_scalar_and_an_empty_tensor_empty() -> None:
    found = decode(encode({"s": np.array(2.5, np.float32), "e": np.zeros((0, 3), np.int8)}))
    assert found["s"].shape == ()
    assert found["e"].shape == (0, 3)


def test_bytes_do_not_depend_on_order_or_memory_layout() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    turned = np.asfortranarray(a)
    big = a.astype(">f4")
    assert encode({"a": a, "b": a}) == encode({"b": turned, "a": big})


def test_names_of_any_text_come_back() -> None:
    names = ["a b", "größe", 'q"\n\\', "\u2028"]
    assert sorted(decode(encode({n: np.zeros(1, np.int8) for n in names}))) == sorted(names)


def test_other_bytes_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        decode(b"dlbuild weights 0\n[]\n")
    assert str(caught.value) == (
        "error: this is not a weights file of this version of dlbuild\n"
        "  fix: delete the build folder and build again"
    )


def test_narrow_types_are_those_of_ml_dtypes() -> None:
    assert numpy_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)
