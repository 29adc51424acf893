"""What a rule file says about one operator, each text with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dlbuild.base.digest import digest
from dlbuild.base.yamlsrc import Node, Scalar, Table
from dlbuild.rulebook.source import plain

NEST_TEMPLATE = "kernels/nest.c.j2"
"""The template that renders any rule with steps."""

COUNT = "count"
"""The output that says how many there are, of a rule with `run_time_size`."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output.

    shape: names, numbers, at most one pack `X...`; None = any.
    dtypes: element types, sets of them, or one variable; empty = any.
    absent: its value when it is not there; None = it must be there.
    value, all_zero, narrow: the names that its content or that fact is bound to, or empty.
    """

    name: str
    shape: tuple[str, ...] | None
    dtypes: tuple[str, ...]
    absent: Scalar | None
    value: str
    all_zero: str
    narrow: str
    is_variadic: bool
    place: Node


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """The names that an attribute's value is bound to; no names = it is ignored.

    choices: the values that the rule computes; empty = all.
    """

    names: tuple[str, ...]
    default: Scalar | None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirement:
    """What must hold, and why."""

    that: Scalar
    because: str


SPACE = "dhw"
"""Depth, height and width, in the order of the axes of a tensor."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop axis, or as many as its extent has members: depth, height, width if `is_spatial`."""

    name: str
    is_pack: bool
    extent: Scalar
    is_spatial: bool = False

    def members(self, count: int) -> tuple[str, ...]:
        """Return the axes of a pack: o0, o1, ..., or oh, ow if they are height and width."""
        if self.is_spatial and count <= len(SPACE):
            return tuple(f"{self.name}{letter}" for letter in SPACE[len(SPACE) - count :])
        return tuple(f"{self.name}{j}" for j in range(count))


@dataclass(frozen=True, slots=True)
class MapSpec:
    """An index map and the tensor it is of."""

    of: str
    at: Scalar


@dataclass(frozen=True, slots=True)
class RunTimeSize:
    """The greatest extents of a result. axis: whose extent only the run knows; None = none."""

    most: Scalar
    axis: Scalar | None


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Numbers computed at build time from sizes, for each axis of a pack.

    outer, inner: (axis, the name of its extent): the numbers are in the order of the two loops.
    """

    outer: tuple[str, str]
    inner: tuple[str, str]
    lets: Mapping[str, Scalar]
    value: Scalar
    is_index: bool


@dataclass(frozen=True, slots=True)
class ConstantSpec:
    """Numbers that the build computes from constant operands.

    reads: accesses of its own. along, folds: sums over axes of the reduction, for `value`.
    """

    at: Scalar | None
    over: Mapping[str, Scalar]
    reads: Mapping[str, MapSpec]
    along: tuple[str, ...]
    folds: Mapping[str, tuple[Scalar, Scalar]]
    dtype: Scalar
    value: Scalar


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One step. when: conditions, all of which must hold. folds: name -> start, each."""

    over: tuple[str, ...]
    when: tuple[Scalar, ...]
    lets: Mapping[str, Scalar]
    folds: Mapping[str, tuple[Scalar, Scalar]]
    stores: Mapping[str, Scalar]
    place: Node


@dataclass(frozen=True, slots=True)
class ScratchSpec:
    """Working memory of a hand-written kernel: `count` numbers of `dtype`, `row_count` where it is
    called row by row.
    """

    dtype: str
    count: Scalar
    row_count: Scalar


AT_ONCE = "AT_ONCE"
"""What a kernel calls the points that it computes at once, by which its forms differ."""


COLUMNS = "COLUMNS"
"""What a kernel calls the columns of a row that it is to compute at a time, all or a part."""


@dataclass(frozen=True, slots=True)
class FormSpec:
    """So many points at once, what that costs of whole rows and of narrow parts, and when it is
    possible.
    """

    points: int
    cost: float
    narrow_cost: float
    when: Scalar | None


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """Channels that a hand-written kernel can be given a part of: multiples of `of` along `axis`.

    sizes: what the template knows the number of all channels as.
    """

    axis: str
    of: Scalar
    sizes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A hand-written kernel of the same nest: it computes `result`, the steps behind it follow.

    uses: the operands that its template reads in place of those of the fold.
    samples: the axis of the domain that its template does not know: it is called for each point.
    keep: axes of the domain that it counts itself; it sees all others as one.
    rows: axes along which it can be called for one point. columns: axes of which it then computes
    a part if asked to; its inputs may be there in part too. blocks: channels of which it computes a
    part, as a smaller operator; the first axis of each of its constants goes along them.
    at_once: forms that a strip may choose from, the usual one first.
    """

    name: str
    when: Scalar | None
    features: tuple[str, ...]
    lets: Mapping[str, Scalar]
    constants: Mapping[str, ConstantSpec]
    uses: tuple[str, ...]
    scratch: Mapping[str, ScratchSpec]
    samples: str
    keep: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    blocks: BlockSpec | None
    at_once: tuple[FormSpec, ...]
    result: Scalar
    template: str


@dataclass(frozen=True, slots=True)
class Variant:
    """Another way to compute the same; what it does not say is the rule's.

    lets, constants and layout are laid over the rule's by name, steps and template replace them.
    """

    name: str
    when: Scalar | None
    rounding: Literal["", "exact", "fixed"]
    features: tuple[str, ...]
    lets: Mapping[str, Scalar]
    constants: Mapping[str, ConstantSpec]
    steps: tuple[StepSpec, ...] | None
    layout: Mapping[str, tuple[str, ...]]
    template: str | None


@dataclass(frozen=True)
class OpRule:
    """One operator's rule. `file` is the file's name, behind its pack's.

    since: the first and the last opset it is for, inclusive; None = no end.
    spatial: the packs whose axes are depth, height and width, as many of the last as there are.
    reads: `*` stands for every input that has no map of its own.
    outside: `skip` or a value expression.
    macs: of a template of its own; those of steps are counted.
    run_time: of results whose count only the run knows, which is the last output, `count`.
    """

    kind: str
    domain: str
    since: tuple[int, int | None]
    file: str
    folder: int
    number: int
    replaces: str
    extends: str
    summary: str
    source: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    attributes: Mapping[str, AttributeSpec]
    lets: Mapping[str, Scalar]
    requires: tuple[Requirement, ...]
    domain_axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    spatial: tuple[str, ...]
    views: Mapping[str, Scalar]
    reads: Mapping[str, MapSpec]
    writes: Mapping[str, MapSpec]
    outside: Mapping[str, Scalar]
    run_time: Mapping[str, RunTimeSize]
    for_each: str
    tables: Mapping[str, TableSpec]
    constants: Mapping[str, ConstantSpec]
    steps: tuple[StepSpec, ...]
    chain: Scalar | None
    layout: Mapping[str, tuple[str, ...]]
    role: Literal["", "copy", "cast", "pad"]
    template: str
    macs: Scalar | None
    variants: tuple[Variant, ...]
    kernels: tuple[KernelSpec, ...]
    text: Table

    @property
    def name(self) -> str:
        """`file#Op`, and `~2` behind it for the second rule of that operator in the file."""
        return f"{self.file}#{self.kind}" + (f"~{self.number}" if self.number > 1 else "")

    @property
    def where(self) -> str:
        """`file:line`, for messages."""
        return self.text.where.rpartition(":")[0]

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of what the rule says, comments and places left out."""
        return digest(plain(self.text))
