from hypothesis import given
from hypothesis import strategies as st

from dlbuild.emit.comments import extents, filled, quoted


def test_a_name_cannot_end_its_comment() -> None:
    assert quoted("a*/b/*c") == "'a* /b/ *c'"


def test_a_name_cannot_hide_code_or_splice_lines() -> None:
    assert quoted("a\u202eb\n??/") == r"'a\u202eb\n? ?/'"


def test_both_ends_of_a_long_name_stay() -> None:
    assert quoted("StatefulPartitionedCall/mobilenet/conv1_relu/Relu6", 30) == (
        "'StatefulPart...v1_relu/Relu6'"
    )


@given(st.text())
def test_a_quoted_name_is_one_short_line_of_plain_text(name: str) -> None:
    shown = quoted(name)

    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) <= 60
    assert not any(border in shown for border in ("*/", "/*", "??"))


def test_a_scalar_is_an_array_of_one() -> None:
    assert extents(()) == "[1]"
    assert extents((1, 49, 10)) == "[1][49][10]"


def test_a_call_that_fits_is_one_line() -> None:
    assert filled("    f(", ["a", "b"], ");") == "    f(a, b);"
    assert filled("    f(", [], ");") == "    f();"


def test_a_long_call_continues_under_its_first_argument() -> None:
    text = filled("    conv(", ["x" * 50, "y" * 38, "z"], ");")

    assert text == "    conv(" + "x" * 50 + ", " + "y" * 38 + ",\n" + "         z);"
    assert max(map(len, text.splitlines())) == 100


def test_a_value_goes_below_its_variable_if_it_takes_fewer_lines_there() -> None:
    one = filled("    copies_later = bring(", ["x" * 50, "y" * 30], ");")
    two = filled("    copies_later = bring(", ["x" * 50, "y" * 40], ");")

    assert one == "    copies_later =\n        bring(" + "x" * 50 + ", " + "y" * 30 + ");"
    assert two == "    copies_later = bring(" + "x" * 50 + ",\n" + " " * 25 + "y" * 40 + ");"
