"""One operator matched by one rule: every name bound, every map an index map, every step typed.

An instance knows no layout and no C: `order_of` a tensor decides addresses later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dlbuild.ir.profile import Form
from dlbuild.rulebook.index import Bound, Index
from dlbuild.rulebook.value import Expr, Type

Size = int | float | str | bool | tuple["Size", ...]
"""What a name of a rule is bound to at build time: a number, a text, or a pack of numbers."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor under the name that the rule gives it.

    role: `input` and `output` are activations or graph constants as the model has them;
    `constant` is made by the build from other constants (see `Made`); `scratch` is working memory.
    tensor: the graph's name; for `constant` and `scratch` the operand's own name.
    order: preferred axis order in memory, slowest first; empty = any.
    """

    name: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    role: Literal["input", "output", "constant", "scratch"]
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that is not proved: 0 <= index < extent."""

    index: Index
    extent: int


@dataclass(frozen=True, slots=True)
class Access:
    """How a nest addresses an operand: one index map for each axis of `view`.

    view: the operand's shape, or another shape of the same count (then contiguous).
    guards: what must hold for the element to exist; empty = proved in bounds.
    outside: what a read gives when a guard fails: None (guards is empty), "skip" (the iteration
    does not happen), or a value.
    """

    operand: str
    view: tuple[int, ...]
    index: tuple[Index, ...]
    guards: tuple[Guard, ...] = ()
    outside: Literal["skip"] | Expr | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of two index maps that decides whether an iteration happens."""

    operator: Literal["==", "!=", "<", "<=", ">", ">="]
    left: Index
    right: Index


@dataclass(frozen=True, slots=True)
class Fold:
    """A variable set to `start` before the loops of its step and to `each` inside them."""

    name: str
    start: Expr
    each: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Let:
    """A local constant, valid from its step on."""

    name: str
    value: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Store:
    """The value written through an access (of an output operand)."""

    access: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """One step of a rule: loops `over` axes (none = once for the point), then in this order lets,
    folds and stores inside them.
    """

    over: tuple[str, ...]
    when: tuple[Condition, ...] = ()
    lets: tuple[Let, ...] = ()
    folds: tuple[Fold, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True)
class Nest:
    """One loop nest: the domain's axes, then the steps for each of its points.

    given: numbers that maps use like axes but that the caller passes, each with its range (both
    ends included). count: the given number of turns of a loop, where it is not the extent.
    """

    domain: tuple[str, ...]
    reduce: tuple[str, ...]
    extent: Mapping[str, int]
    access: Mapping[str, Access]
    steps: tuple[Loop, ...]
    tables: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    given: Mapping[str, Bound] = field(default_factory=dict)
    count: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """A constant that the build computes from other constants (scales, multipliers, sums).

    Its operand has role `constant`, shape = extents of `axes`; `value` is over the accesses of
    `nest` (whose only store goes to it). Nothing but the weight table ever holds its numbers.
    """

    operand: str
    nest: Nest


@dataclass(frozen=True, slots=True)
class Blocks:
    """Channels along `axis` that a hand-written kernel can be given a multiple of `of` of.

    sizes: what its template knows the number of all channels as.
    """

    axis: str
    of: int
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class Handwritten:
    """A hand-written kernel of the same nest, which may take the place of its fold.

    result: the value over the fold's variables that the template computes for each point; the
    rest of the steps is made from it. fold, access: what the template stands for, as matched.
    uses: the operands that it reads. operands, made: constants and scratch that are its own.
    samples: the axis for each point of which it is called, empty if it computes all there are.
    keep, rows, columns, blocks: see `rule.KernelSpec`. forms: in which it may go, the usual one
    first.
    """

    name: str
    template: str
    result: Expr
    fold: Loop
    access: Mapping[str, Access]
    uses: tuple[str, ...]
    operands: tuple[Operand, ...]
    made: tuple[Made, ...]
    samples: str
    keep: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    forms: tuple[Form, ...]
    sizes: Mapping[str, Size]
    blocks: Blocks | None = None

    @property
    def rooms(self) -> frozenset[str]:
        """The names of its working memory."""
        return frozenset(o.name for o in self.operands if o.role == "scratch")


@dataclass(frozen=True)
class Instance:
    """A rule bound to an operator.

    sizes: every size name of the rule (shapes, attributes, lets), for templates and costs.
    nests: one for each member of a variadic tensor (`for_each`), else one; an opaque rule has none.
    ops: names of the graph operators computed (more than one after fusion), in order.
    handwritten: a faster kernel of the nest, if the rule has one that fits.
    macs: of an opaque one, which its rule says.
    """

    rule: str
    variant: str
    kind: str
    summary: str
    source: str
    template: str
    ops: tuple[str, ...]
    operands: tuple[Operand, ...]
    sizes: Mapping[str, Size]
    nests: tuple[Nest, ...]
    made: tuple[Made, ...] = ()
    role: Literal["", "copy", "cast", "pad"] = ""
    handwritten: Handwritten | None = None
    macs: int = 0

    def operand(self, name: str) -> Operand:
        """Return the operand of that name."""
        return next(o for o in self.operands if o.name == name)
