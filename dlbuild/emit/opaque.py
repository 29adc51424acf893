"""What a kernel template of its own needs: elements of operands, whatever their type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.emit.ctypes import COMPUTE, STORAGE, is_encoded, is_packed
from dlbuild.rulebook.instance import Operand
from dlbuild.rulebook.value import COMPUTE_TYPE


@dataclass(frozen=True, slots=True)
class Elements:
    """Prints reads and writes of elements. names: of the operands in C."""

    operands: Mapping[str, Operand]
    names: Mapping[str, str]
    by_value: frozenset[str]

    def kind(self, operand: str) -> str:
        """Return the compute type of an operand's elements, as helpers are named by it."""
        return COMPUTE_TYPE[self.operands[operand].dtype]

    def ctype(self, operand: str) -> str:
        """Return the C type in which an operand's elements are computed with."""
        return COMPUTE[COMPUTE_TYPE[self.operands[operand].dtype]]

    def load(self, operand: str, at: str) -> str:
        """Return the element at an address, as C."""
        dtype, name = self.operands[operand].dtype, self.names[operand]
        if is_packed(dtype):
            is_number = operand in self.by_value
            return f"{dtype}_value({name})" if is_number else f"load_{dtype}({name}, {at})"
        element = name if operand in self.by_value else f"{name}[{at}]"
        if is_encoded(dtype):
            return f"{dtype}_to_f32({element})"
        return element

    def index(self, operand: str, at: str) -> str:
        """Return the element at an address as an int32_t."""
        element = self.load(operand, at)
        return element if self.ctype(operand) == "int32_t" else f"(int32_t){element}"

    def store(self, operand: str, at: str, value: str) -> str:
        """Return the statement that stores a value of the operand's compute type."""
        dtype, name = self.operands[operand].dtype, self.names[operand]
        if is_packed(dtype):
            return f"store_{dtype}({name}, {at}, {value});"
        if is_encoded(dtype):
            return f"{name}[{at}] = f32_to_{dtype}({value});"
        ctype = STORAGE[dtype]
        is_same = ctype == self.ctype(operand)
        return f"{name}[{at}] = {value};" if is_same else f"{name}[{at}] = ({ctype})({value});"

    def copy(self, operand: str, at: str, source: str, place: str) -> str:
        """Return the statement that copies an element of one type to another operand."""
        dtype = self.operands[operand].dtype
        if is_packed(dtype) or dtype != self.operands[source].dtype:
            return self.store(operand, at, self.load(source, place))
        element = self.names[source]
        if source not in self.by_value:
            element = f"{element}[{place}]"
        return f"{self.names[operand]}[{at}] = {element};"
