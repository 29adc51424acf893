"""What the C file of the tables will be, but for its numbers: all that structure says of it.

The numbers are filled in by `stages.table_text`, without rules and templates, so that a retrained
model costs neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.ir.compact import pack, unpack
from dlbuild.ir.image import ImageLayout, ImageTable
from dlbuild.rulebook import index, instance, value
from dlbuild.rulebook.instance import Made, Operand
from dlbuild.stages.constant import Constant


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
    sections: the macro that says where the tables of a cluster lie.
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
    tables: tuple[Constant, ...]
    sections: Mapping[str, str]
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
    return unpack(content, TablePlan, (Constant, Making, Scaling, ImageLayout, ImageTable, *_PARTS))


_PARTS = (
    *(instance.Operand, instance.Made, instance.Nest, instance.Loop, instance.Fold),
    *(instance.Let, instance.Store, instance.Condition, instance.Access, instance.Guard),
    *(index.Index, index.Quotient, index.Remainder, index.Folded, index.Tabled, index.Loaded),
    *(value.Number, value.Read, value.Local, value.Position, value.Offset, value.Unary),
    *(value.Binary, value.Compare, value.Logic, value.Choose, value.Cast, value.Call),
    value.Lookup,
)
