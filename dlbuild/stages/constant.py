"""One table of a model: what it is called, what it holds, and in which form it is written."""

from dataclasses import dataclass
from math import prod
from typing import Literal

from dlbuild.emit.ctypes import storage, units
from dlbuild.ir.dtype import DTYPES

Form = Literal["scalar", "braces", "text", "incbin"]


@dataclass(frozen=True, slots=True)
class Constant:
    """One table.

    kernel, operand: its first reader, which names it; of what a state has at first no kernel, and
        the state.
    tensor: the model's constant, or the empty name if the build computes it.
    shape: extents in the model's order. order: axes from slowest to fastest in memory.
    cluster: in whose memory it lies; the empty name = where all tables are.
    """

    symbol: str
    kernel: str
    operand: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    form: Form
    cluster: str = ""

    @property
    def count(self) -> int:
        """Number of stored units: elements, or bytes of several."""
        return units(self.dtype, prod(self.shape))

    @property
    def ctype(self) -> str:
        """The C type that stores an element."""
        return storage(self.dtype)

    @property
    def size_bytes(self) -> int:
        """Bytes of the table."""
        return DTYPES[self.dtype].size_bytes(prod(self.shape))

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """Extents in the order of memory."""
        return tuple(self.shape[axis] for axis in self.order) or self.shape
