"""Functions that differ in numbers alone become one whose calls give the numbers."""

from collections.abc import Sequence

import pytest

from dlbuild.emit.merged import Merged, NotMerged, merge
from dlbuild.emit.naming import parameters_in
from dlbuild.emit.skeleton import skeleton_of
from dlbuild.emit.statements import statements


def scaled(name: str, n: int, pitch: int) -> str:
    return f"""\
static void {name}(const float *x, float *y)
{{
    enum {{ N = {n}, K = 3 }};

    for (int32_t i = 0; i < N; ++i) {{
        for (int32_t k = 0; k < K; ++k) {{
            y[(i * {pitch}) + k] = x[i];
        }}
    }}
}}"""


def nothing(_: str) -> Sequence[str]:
    return ()


def merged(*texts: str) -> Merged:
    names = [f"f{number}" for number in range(1, len(texts) + 1)]
    return merge(names, texts, nothing)


def body(line: str) -> str:
    return f"static void f1(int32_t *y)\n{{\n    {line}\n}}"


def test_enumerators_and_numbers_become_members_of_their_calls() -> None:
    found = merged(scaled("f1", 4, 8), scaled("f2", 300, 70000))
    assert (
        found.text
        == """\
static void f1(const float *x, float *y, const f1_sizes_t *restrict sizes)
{
    enum { K = 3 };
    const int32_t N = sizes->N;
    const int32_t I_STEP = sizes->I_STEP;

    for (int32_t i = 0; i < N; ++i) {
        for (int32_t k = 0; k < K; ++k) {
            y[(i * I_STEP) + k] = x[i];
        }
    }
}"""
    )
    assert (
        found.declaration.partition("*/\n")[2]
        == """\
typedef struct {
    int32_t I_STEP;
    uint16_t N;
} f1_sizes_t;

static const f1_sizes_t f1_sizes = {.I_STEP = 8, .N = 4};
static const f1_sizes_t f2_sizes = {.I_STEP = 70000, .N = 300};"""
    )
    assert (found.constants, found.fields) == (("f1_sizes", "f2_sizes"), ("I_STEP", "N"))


def test_a_number_that_is_always_an_enumerator_takes_its_name() -> None:
    found = merged(scaled("f1", 4, 4), scaled("f2", 6, 6))
    assert "y[(i * N) + k] = x[i];" in found.text
    assert found.fields == ("N",)


def test_what_is_the_same_once_only_stays_two_numbers() -> None:
    assert merged(scaled("f1", 4, 4), scaled("f2", 6, 7)).fields == ("N", "I_STEP")


def test_own_helpers_get_the_parameter_where_they_need_it() -> None:
    texts = [
        f"static inline void {name}_part(int32_t *y, int32_t i)\n{{\n    y[i * {n}] = i;\n}}\n\n"
        f"static inline void {name}_same(int32_t *y)\n{{\n    y[0] = 1;\n}}\n\n"
        f"static void {name}(int32_t *y)\n{{\n    {name}_same(y);\n    {name}_part(y, 2);\n}}"
        for name, n in (("f1", 3), ("f2", 5))
    ]
    text = merged(*texts).text
    assert "f1_part(int32_t *y, int32_t i, const f1_sizes_t *restrict sizes)" in text
    assert "    const int32_t I_STEP = sizes->I_STEP;\n\n    y[i * I_STEP] = i;" in text
    assert "    f1_same(y);\n    f1_part(y, 2, sizes);" in text


def test_parameters_are_known_by_their_names() -> None:
    text = "SUMMING void dot(int32_t sums[2], const int32_t *x,\n                 int32_t quads)\n"
    assert parameters_in(text, "dot") == ("sums", "x", "quads")
    assert parameters_in("    dot(1, 2, 3);\n", "dot") == ()


def test_an_array_has_the_greatest_length() -> None:
    text = merged(body("int8_t part[12];"), body("int8_t part[40];")).text
    assert "    int8_t part[40];\n" in text
    text = merged(body("int32_t acc[4][8];"), body("int32_t acc[2][16];")).text
    assert "    int32_t acc[4][16];\n" in text


def test_bytes_are_counted_by_the_type_of_the_library() -> None:
    text = merged(body("memset(y, 0, 4 * 12);"), body("memset(y, 0, 4 * 16);")).text
    assert "memset(y, 0, (size_t)(4 * NUMBER));" in text


def test_a_name_is_not_taken_twice() -> None:
    lines = ("y[I_STEP] = y[sizes * 2];", "y[I_STEP] = y[sizes * 3];")
    text = merged(*map(body, lines)).text
    assert "const f1_sizes_t *restrict sizes2" in text
    assert "const int32_t SIZES_STEP = sizes2->SIZES_STEP;" in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("static const int32_t at[2] = {1, 2};", "static const int32_t at[2] = {1, 3};"),
        ("y[0] = INT64_C(4);", "y[0] = INT64_C(5);"),
        ("enum { N = 2 }; int32_t a[N];", "enum { N = 3 }; int32_t a[N];"),
    ],
)
def test_where_c_wants_a_constant_they_stay_apart(one: str, other: str) -> None:
    texts = [body(text.replace("; ", ";\n    ")) for text in (one, other)]
    with pytest.raises(NotMerged, match="a constant is needed"):
        merged(*texts)


def test_a_line_that_nobody_can_break_keeps_them_apart() -> None:
    word = "a_name_of_many_letters" * 3
    lines = [body(f"if ({word} * {n} > {'b' * 26}) {{\n    }}") for n in (2, 3)]
    with pytest.raises(NotMerged, match="a line is too long"):
        merged(*lines)


def test_numbers_of_another_type_are_no_numbers_of_a_parameter() -> None:
    for one, other in (("1.0F", "2.0F"), ("5U", "6U"), ("3000000000", "4000000000")):
        texts = [body(f"y[0] = {number};") for number in (one, other)]
        assert skeleton_of(texts[0], "f1") != skeleton_of(texts[1], "f1")


def test_the_parts_of_a_text_are_the_text() -> None:
    head = "/* What\n * it is. */\nstatic void f(int32_t a,\n              int32_t b)\n"
    text = head + "{\n    g(a,\n      b);\n}"
    parts = list(statements(text))
    assert "\n".join(line for part in parts for line in part.lines) == text
    assert [part.text for part in parts[1:]] == [
        "static void f(int32_t a, int32_t b)",
        "{",
        "    g(a, b);",
        "}",
    ]
