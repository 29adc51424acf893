"""What is said of a template of a pack that is wrong."""

from pathlib import Path

import jinja2
import pytest

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.emit.environment import environment, rendered


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "int a;\n{{ sizes.CC }}\n",
            "2: error: the template cannot be rendered: 'dict",
        ),
        ("{{ sizes.C }\n", "1: error: the template cannot be rendered: unexpected '}'"),
        ("\n\n{{ of('z') }}\n", "3: error: the template cannot be rendered: there is no 'z'"),
    ],
)
def test_a_fault_in_a_template_of_a_pack_is_named_by_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "own.c.j2").write_text(text)
    made = environment([tmp_path, builtin_folder() / "templates"])
    with pytest.raises(UserError) as caught:
        rendered(made, "own.c.j2", {"sizes": {"C": 1}, "of": {"a": 1}.__getitem__})
    assert str(caught.value).startswith(f"{tmp_path}/own.c.j2:{message}")


def test_a_fault_in_our_own_template_is_our_fault() -> None:
    made = environment([builtin_folder() / "templates"])
    with pytest.raises(jinja2.UndefinedError):
        rendered(made, "kernels/nest.c.j2", {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("    enum { A = 1, B = 2 };\n\n    y = B;\n}\n", "    enum { B = 2 };\n\n    y = B;\n}\n"),
        ("    enum { A = 1 };\n\n    y = 2;\n}\n", "    y = 2;\n}\n"),
        ("    enum { A = 1, B = A / 2 };\n    y = B;\n}\n", None),
        ("    enum { A = 1 };\n    y = 2;\n}\n    A = 3;\n}\n", "    y = 2;\n}\n    A = 3;\n}\n"),
    ],
)
def test_sizes_that_a_function_does_not_use_are_not_named(
    tmp_path: Path, text: str, shown: str | None
) -> None:
    (tmp_path / "own.c.j2").write_text(text)
    made = environment([tmp_path])
    assert rendered(made, "own.c.j2", {}) == (text if shown is None else shown)
