import re
from pathlib import Path

from dlbuild.emit.environment import environment
from dlbuild.emit.helpers import helper_names, helper_text, helpers_of, includes_of

TEMPLATES = Path(__file__).parents[3] / "templates"
ENVIRONMENT = environment([TEMPLATES])


def test_a_helper_stands_after_those_it_calls() -> None:
    assert helpers_of(ENVIRONMENT, ["y = scale_fixed(a, b, c) + abs_i32(a);"]) == (
        "wrap_sub_i32",
        "abs_i32",
        "saturate_i64",
        "scale_fixed_little",
        "scale_fixed",
    )


def test_what_is_not_called_is_not_emitted() -> None:
    assert helpers_of(ENVIRONMENT, ["y[i] = x[i];"]) == ()


def test_each_file_defines_the_function_type_or_macro_of_its_name() -> None:
    for name in helper_names(ENVIRONMENT):
        text = helper_text(ENVIRONMENT, name)
        assert text.startswith("/* ")
        functions = re.findall(r"^(?:static inline|SUMMING) ", text, re.MULTILINE)
        if not functions:
            assert f"\n}} {name};\n" in text or re.search(rf"\n#define {name}\b", text)
            continue
        assert f" {name}(" in text.split("{")[0]
        assert len(functions) == 1


def test_a_folder_before_the_built_in_one_replaces_a_helper(tmp_path: Path) -> None:
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "max_i32.c").write_text("/* mine */\n")

    assert helper_text(environment([tmp_path, TEMPLATES]), "max_i32") == "/* mine */\n"


def test_headers_are_those_that_the_text_needs() -> None:
    assert includes_of(["int32_t a = 0;"]) == ("stdint.h",)
    assert includes_of(["float a = expf(b);"]) == ("math.h", "stdint.h")
    assert includes_of(["a = -INFINITY; bool b = true;"]) == ("math.h", "stdbool.h", "stdint.h")
    assert includes_of(["#if defined(__ARM_FEATURE_MVE)"]) == ("arm_mve.h", "stdint.h")
