"""The parameters of a kernel's C function."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: the operand it stands for and its C type.

    ctype: of one element. by_value: the element itself, else a pointer to the first.
    is_const: the kernel does not write it.
    """

    operand: str
    ctype: str
    by_value: bool
    is_const: bool
