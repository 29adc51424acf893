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
