"""What the profile stage decided: kernels in order, and where axes lie in memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Alias:
    """A kernel that needs no code: its output is `offset_bytes` into the buffer of `source`."""

    source: str
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """Working memory of a kernel while it runs: `count` numbers of `dtype`."""

    name: str
    dtype: str
    count: int


NARROW = 8
"""So many columns of a row at a time are few."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which a hand-written kernel goes: so many points at once.

    cost, narrow_cost: how long it takes, over that of the first form; of a few columns at a time.
    count, row_count: numbers of its working memory, for all points and for a row of all `columns`,
    and `by_column` less for each column that a part of a row has fewer.
    """

    points: int = 0
    cost: float = 1.0
    narrow_cost: float = 1.0
    count: int = 0
    row_count: int = 0
    columns: int = 0
    by_column: int = 0

    def count_of(self, columns: int) -> int:
        """Return the numbers of working memory for rows of so many columns, 0 for all of them."""
        return self.row_count - (self.by_column * (self.columns - columns) if columns else 0)

    def cost_of(self, columns: int) -> float:
        """Return how long it takes for rows of so many columns, 0 for all of them."""
        return self.narrow_cost if 0 < columns <= NARROW else self.cost


@dataclass(frozen=True, slots=True)
class Handwriting:
    """Whether a hand-written kernel computes a node.

    name: of the rule's kernel that fits. obstacle: why the nest is printed all the same, else
    nothing. rows: axes along which it may be called for one point. scratch: what it needs then.
    columns: axes of which it computes a part of a row too, from inputs that are there in part.
    forms: the usual one, and others that take longer in less working memory.
    """

    name: str
    obstacle: str = ""
    rows: tuple[str, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    columns: tuple[str, ...] = ()
    forms: tuple[Form, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """One node of the profile graph: a C function call that can be scheduled alone.

    ops: names of the graph's operators it computes. `anchor` gives the loop nest; `prologue`
    operators are computed where the anchor reads, `epilogue` ones where it writes (in order).
    rule, variant: the rule file and variant that match the anchor (`conv.yaml#Conv`, ``).
    reads, writes: activations. constants: tensors of the weights file it reads (raw ones).
    macs, flops: of one execution. bytes_*: traffic of one execution.
    cycles: predicted, from the target's cost table.
    in_place: (input, output) pairs that may share one buffer.
    handwriting: the rule's faster kernel for it, None if there is none.
    after: kernels that run before it though it reads nothing of them: it overwrites a state that
        they read.
    """

    name: str
    anchor: str
    prologue: tuple[str, ...]
    epilogue: tuple[str, ...]
    rule: str
    variant: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    constants: tuple[str, ...]
    macs: int
    flops: int
    bytes_read: int
    bytes_written: int
    cycles: int
    alias: Alias | None = None
    in_place: tuple[tuple[str, str], ...] = ()
    handwriting: Handwriting | None = None
    after: tuple[str, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """All operators computed, producers first."""
        return (*self.prologue, self.anchor, *self.epilogue)


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of a tensor's axes in memory, slowest first; the model's own order is 0, 1, 2..."""

    tensor: str
    order: tuple[int, ...]


@dataclass(frozen=True)
class Profile:
    """The profile graph: kernels in topological order and the layout of each tensor that has one.

    A tensor without an entry in `layouts` lies in the model's own order.
    """

    kernels: tuple[Kernel, ...]
    layouts: tuple[Layout, ...] = ()

    @cached_property
    def kernel(self) -> Mapping[str, Kernel]:
        """Each kernel by its name."""
        return {k.name: k for k in self.kernels}

    @cached_property
    def order_of(self) -> Mapping[str, tuple[int, ...]]:
        """The axis order of each tensor that does not lie in the model's own."""
        return {entry.tensor: entry.order for entry in self.layouts}
