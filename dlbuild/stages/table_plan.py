"""What the C file of the tables will be, but for its numbers: all that structure says of it.

The numbers are filled in by `stages.table_text`, without rules and templates, so that a retrained
model costs neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from dlbuild.ir.compact import pack, unpack
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.image import ImageLayout, ImageTable
from dlbuild.rulebook import index, instance, value
from dlbuild.rulebook.instance import Made, Operand

Form = Literal["scalar", "braces", "text", "incbin"]


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    tensor: the model's constant; of a table that the build computes the empty name.
    kernel, operand: its first reader, and as what it is computed.
    shape: extents in the model's order. order: axes from slowest to fastest in memory.
    section: the macro that says where it lies.
    count: stored units (elements, or bytes of several); ctype: the C type of one.
    """

    symbol: str
    kernel: str
    operand: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    form: Form
    count: int
    ctype: str
    section: str

    @property
    def size_bytes(self) -> int:
        """Bytes of the table."""
        return DTYPES[self.dtype].size_bytes(prod(self.shape))


@dataclass(frozen=True, slots=True)
class Making:
    """How a kernel's tables are computed from its other constants (`interpret.make`)."""

    operands: tuple[Operand, ...]
    made: tuple[Made, ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How an interface tensor's integers stand for reals. name: its C name.

    scale, zero_point: constants of the model; zero_point is the empty name if there is none.
    """

    name: str
    scale: str
    zero_point: str


@dataclass(frozen=True)
class TablePlan:
    """The C file of the tables.

    model: the model's name in messages. macro: prefix of its macros. tag: of the structure.
    makings: of the kernels that have tables to compute, by their names.
    texts: the file in pieces, between which the definitions stand: those of `tables`, then those of
    `scalings`. Its four forms are named by whether it needs math.h and a macro that repeats
    numbers: "", "math", "repeat", "math repeat". `DIGEST` stands for that of the weights.
    is_embedded: whether large tables are in a file of their own that the C file embeds.
    image: how they lie if all are in a file of their own that is flashed apart; then the C file is
        of one piece, and names of tables and interface tensors have no prefix.
    """

    model: str
    macro: str
    tag: str
    tables: tuple[Table, ...]
    makings: Mapping[str, Making]
    scalings: tuple[Scaling, ...]
    texts: Mapping[str, tuple[str, ...]]
    is_embedded: bool
    image: ImageLayout | None = None


DIGEST = "57e165a9" * 8
"""Stands for the digest of the weights, and is as long."""


def form(*, needs_math: bool, repeats: bool) -> str:
    """Return the name of a form of the file."""
    return " ".join(word for word, is_so in (("math", needs_math), ("repeat", repeats)) if is_so)


def encode(plan: TablePlan) -> bytes:
    """Return the plan as a file."""
    return pack(plan)


def decode(content: bytes) -> TablePlan:
    """Return the plan of a file.

    Raises:
        UserError: it is no such file.
    """
    return unpack(content, TablePlan, (Table, Making, Scaling, ImageLayout, ImageTable, *_PARTS))


_PARTS = (
    *(instance.Operand, instance.Made, instance.Nest, instance.Loop, instance.Fold),
    *(instance.Let, instance.Store, instance.Condition, instance.Access, instance.Guard),
    *(index.Index, index.Quotient, index.Remainder, index.Folded, index.Tabled, index.Loaded),
    *(value.Number, value.Read, value.Local, value.Position, value.Offset, value.Unary),
    *(value.Binary, value.Compare, value.Logic, value.Choose, value.Cast, value.Call),
    value.Lookup,
)
