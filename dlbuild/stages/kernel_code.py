"""A kernel's function as it stands in the C file."""

import re

from dlbuild.emit.kernel import KernelText
from dlbuild.rulebook.derive import step_values
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.value import Call, walk


def kernel_code(text: KernelText, macro: str) -> str:
    """Return what it declares, its comment, and the function with the macros of the model."""
    declared = [text.sizes, ""] if text.sizes else []
    # What a helper before the function says of itself is not to be taken for more of its comment.
    between = [""] if text.text.startswith("/*") else []
    code = _in_section(text.text, macro)
    return "\n".join((*declared, text.comment, *between, code)).rstrip("\n")


def rounds(instance: Instance) -> bool:
    """Return whether a kernel rounds a float32, where the model's formula counts to the bit."""
    values = (
        expr
        for nest in instance.nests
        for step in nest.steps
        for value in step_values(step)
        for expr in walk(value)
    )
    return any(isinstance(e, Call) and (e.function, e.type) == ("round", "f32") for e in values)


def _in_section(text: str, macro: str) -> str:
    """Put the macros that say where code lies, and what is compiled alone, before each function."""
    text = re.sub(r"^static ", f"{macro}_CODE_SECTION\nstatic ", text, flags=re.MULTILINE)
    return text.replace(
        f"{macro}_CODE_SECTION\nstatic void ", f"{macro}_CODE_SECTION\n{macro}_KERNEL\nstatic void "
    )
