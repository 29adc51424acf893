"""How statements that are too long for a line are broken."""

from dlbuild.emit.wrap import wrapped

SUM = " + ".join(f"term{number}" for number in range(11))
LONG = " + ".join(f"some_term{number}" for number in range(6))


def test_what_fits_stays() -> None:
    text = "    int a = 1;\n    b = c;\n"
    assert wrapped(text) == text


def test_a_long_value_stands_below() -> None:
    assert wrapped(f"    const int32_t a = {SUM};") == f"    const int32_t a =\n        {SUM};"
    assert wrapped(f"    y[(a * b) + c] += {SUM};") == f"    y[(a * b) + c] +=\n        {SUM};"


def test_a_choice_that_is_too_long_for_one_line_has_its_branches_below_each_other() -> None:
    choice = f"(d == 0) ? ({LONG}) : ({LONG});"
    due = f"    y = (d == 0) ? ({LONG})\n                 : ({LONG});"
    assert wrapped(f"    y = {choice}") == due
    due = f"    const int y =\n        (d == 0) ? ({LONG})\n                 : ({LONG});"
    assert wrapped(f"    const int y = {choice}") == due


def test_a_product_has_as_many_factors_in_a_line_as_fit() -> None:
    one = f"f({LONG})"
    due = f"        g += {one} *\n             {one} * b;"
    assert wrapped(f"        g += {one} * {one} * b;") == due


def test_what_is_no_assignment_stays() -> None:
    text = f"    if (a == {SUM}) {{"
    assert wrapped(text) == text


def test_an_element_whose_index_is_too_long_is_broken_inside_its_brackets() -> None:
    index = ["x_at", "floor_div_i32(ow_first + ow - (kw * 2) + 2, 3)"]
    margin = " " * 40
    due = f"{margin}const float x_now =\n{margin}    x[{index[0]} +\n{margin}      {index[1]}];"
    assert wrapped(f"{margin}const float x_now = x[{' + '.join(index)}];") == due
