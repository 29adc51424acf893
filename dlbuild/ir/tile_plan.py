"""What the tile stage decided: tasks of each kernel, strips, loops through a near memory."""

from dataclasses import dataclass, fields, replace

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Handwriting, Kernel, Profile, Scratch


@dataclass(frozen=True, slots=True)
class Box:
    """A half-open range of one axis of a kernel's iteration domain."""

    axis: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Tile:
    """One task: a kernel over a part of its domain; no box = the whole.

    share: what part of the kernel's time it takes. form: of its hand-written kernel.
    """

    kernel: str
    number: int = 0
    boxes: tuple[Box, ...] = ()
    share: float = 1.0
    form: int = 0


@dataclass(frozen=True, slots=True)
class Touch:
    """What a tile reads or writes of a tensor: a range of each axis of `view`.

    first_byte, end_byte: where that lies in the tensor; bytes between may be others' to touch.
    """

    kernel: str
    tile: int
    tensor: str
    is_write: bool
    view: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    first_byte: int
    end_byte: int

    def meets(self, other: "Touch") -> bool:
        """Say whether both, of one tensor, may touch the same element."""
        return self.view != other.view or all(
            mine[0] < theirs[1] and theirs[0] < mine[1]
            for mine, theirs in zip(self.ranges, other.ranges, strict=True)
        )


@dataclass(frozen=True, slots=True)
class RowRead:
    """The rows of a tensor that row `r` of a layer reads: those in [stride * r + low,
    stride * r + high) that exist, [0, extent). Or the same of columns.

    A row is what lies between two neighbours along the slowest axis in memory that has more than
    one of them, a column along the next one.
    """

    tensor: str
    stride: int
    low: int
    high: int
    extent: int

    def first(self, row: int) -> int:
        """Return the first row that is read."""
        return min(max(self.stride * row + self.low, 0), self.extent)

    def end(self, row: int) -> int:
        """Return the row after the last that is read."""
        return min(max(self.stride * row + self.high, 0), self.extent)


@dataclass(frozen=True, slots=True)
class Layer:
    """A kernel of a strip, computed row by row.

    axis: of its domain, whose points are the rows of `writes`; or of its reduction (then it
    adds row after row of what it reads to `sums`, and writes at the end).
    room: layers whose progress it waits for, so as not to overwrite a row that they read.
    step: rows that are computed at a time; fewer at the end, if `rows` is no multiple.
    passes: where a strip runs through its rows several times, the columns [first, end) that are
    computed in each; columns: the axis along which they lie; across: which columns a column reads.
    """

    kernel: str
    axis: str
    rows: int
    reads: tuple[RowRead, ...]
    writes: str
    sums: tuple[str, ...] = ()
    room: tuple[str, ...] = ()
    passes: tuple[tuple[int, int], ...] = ()
    across: tuple[RowRead, ...] = ()
    columns: str = ""
    step: int = 1

    def end(self, row: int) -> int:
        """Return the row behind those that are computed with `row`, the first of them."""
        return min(row + self.step, self.rows)

    @property
    def most_columns(self) -> int:
        """Return the most columns of a pass, 0 if rows are whole."""
        return max((end - first for first, end in self.passes), default=0)


@dataclass(frozen=True, slots=True)
class Ring:
    """A tensor of which a strip keeps `rows` rows at a time: row r is in place r % rows.

    columns: of each row so many at a time, from the first of the pass on; 0 = all.
    """

    tensor: str
    rows: int
    extent: int
    row_bytes: int
    columns: int = 0


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two tensors that may share bytes during a strip: `upper`, read for the last time, begins at
    least `distance_bytes` after `lower`, which the strip writes over it.
    """

    upper: str
    lower: str
    distance_bytes: int


@dataclass(frozen=True, slots=True)
class Strip:
    """Consecutive kernels computed together, row by row.

    The layer nearest to the end whose input rows are there, and whose output ring has room, goes
    first. If its layers have passes, it runs through all rows once for each: a part of the columns,
    whose neighbours at the borders are computed again.
    layers: in the profile's order. streamed: the model's input whose rows the user brings
    one by one, or the empty name.
    views: kernels without code in front of the layers, under whose names they read that input.
    counters: the working memory (see Sums) of how many rows of each layer, and last of the input,
    are done, where that outlives a call; else the empty name.
    """

    layers: tuple[Layer, ...]
    rings: tuple[Ring, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    streamed: str = ""
    views: tuple[str, ...] = ()
    counters: str = ""

    @property
    def is_in_passes(self) -> bool:
        """Say whether it runs through its rows several times."""
        return bool(self.layers[0].passes)


@dataclass(frozen=True, slots=True)
class Sums:
    """Working memory of a strip: partial results that a layer keeps, one number of `dtype` for each
    of `count` results; or the counters of rows that are done.
    """

    name: str
    dtype: str
    count: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop over the parts of an axis of the iteration domain: `size` points each, or fewer."""

    axis: str
    size: int


@dataclass(frozen=True, slots=True)
class NearBuffer:
    """Room in the near memory for a window of an operand.

    shape: extents of the largest window, axes in the rule's order. copies: 1, or 2 if the next
    window comes while the one before is in use; the second follows `stride_bytes` later.
    """

    operand: str
    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int
    stride_bytes: int
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Level:
    """How one kernel runs through a near memory, task after task.

    loops: from the outermost to the innermost; an axis without one is in one piece.
    buffers: of each operand that is moved, and last of the partial sums. A window is brought when
    it differs from the one of the task before; a result leaves when it is complete.
    tasks: how many. transfers: windows that are moved. traffic_bytes: of all of them.
    reduction: axes whose loops cut a result into partial sums.
    cycles: predicted, moving and computing at the same time.
    """

    kernel: str
    memory: str
    loops: tuple[Cut, ...]
    buffers: tuple[NearBuffer, ...]
    tasks: int
    transfers: int
    traffic_bytes: int
    reduction: tuple[str, ...] = ()
    cycles: int = 0

    @property
    def near_bytes(self) -> int:
        """Bytes of the near memory up to the end of the last buffer."""
        return max((b.offset_bytes + b.copies * b.stride_bytes for b in self.buffers), default=0)


@dataclass(frozen=True, slots=True)
class Tiling(Level):
    """How one kernel runs through the nearest memory, or two.

    is_handwritten: a hand-written kernel computes the tasks, in this form, and is_by_rows: it is
    called for one row of a task after the other; the last buffers are its working memory.
    around: how parts of the kernel first come into a memory between, from which its tasks bring
    their windows, and leave it; then `loops` are those inside a part. All parts have as many tasks.
    """

    around: Level | None = None
    is_handwritten: bool = False
    form: int = 0
    is_by_rows: bool = False

    @property
    def moved_bytes(self) -> int:
        """Bytes that are copied, between all memories."""
        return self.traffic_bytes + (self.around.traffic_bytes if self.around else 0)

    @property
    def outer(self) -> "Tiling | None":
        """The parts, as tasks of their own."""
        if self.around is None:
            return None
        return Tiling(**{f.name: getattr(self.around, f.name) for f in fields(Level)})

    @property
    def parts(self) -> tuple[Cut, ...]:
        """Each axis that is cut, and the size of its parts in a task: loops, outer ones first."""
        sizes = {cut.axis: cut.size for level in self.levels[::-1] for cut in level.loops}
        return tuple(Cut(axis, size) for axis, size in sizes.items())

    @property
    def levels(self) -> tuple[Level, ...]:
        """The nearest memory's, then that of the one between."""
        return (self, self.around) if self.around else (self,)


@dataclass(frozen=True, slots=True)
class Resident:
    """A tensor that lies in a near memory as a whole, from the step that writes it to the last that
    reads it, and its views with it: no window of it is moved.
    """

    tensor: str
    memory: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The tasks of each kernel, in order of execution, kernels in the profile's order.

    strips: kernels whose tasks are computed together; each kernel is in one of them at most.
    sums: the partial results of layers.
    tilings: kernels that run through a near memory. One step of the schedule runs all its tasks.
    touches: what each tile with boxes reads and writes; others touch whole tensors.
    residents: tensors that lie in a near memory beside the windows of tilings.
    """

    tiles: tuple[Tile, ...]
    strips: tuple[Strip, ...] = ()
    sums: tuple[Sums, ...] = ()
    tilings: tuple[Tiling, ...] = ()
    touches: tuple[Touch, ...] = ()
    residents: tuple[Resident, ...] = ()


NEAR_REASON = "no part that it computes fits the near memory, or loops cost less there"
"""Why loops compute the tasks of a kernel that a rule has something faster for."""

NO_TILES = TilePlan(())
"""The plan of a model whose tensors are all resident."""


def resident_names(profile: Profile, tiles: TilePlan) -> frozenset[str]:
    """Return the tensors that lie in a near memory as a whole, views included."""
    found = {resident.tensor for resident in tiles.residents}
    for kernel in profile.kernels:
        if kernel.alias is not None and kernel.alias.source in found:
            found.update(kernel.writes)
    return frozenset(found)


def handwritten_kernel(kernel: Kernel, tiles: TilePlan) -> Handwriting | None:
    """Return the hand-written kernel that computes a node under a plan, None if the nest does.

    Tasks that it cannot compute and sums of rows are the nest's; so are rows along another axis,
    and parts of rows if the kernel computes whole ones alone.
    """
    found = kernel.handwriting
    if found is None or found.obstacle:
        return None
    if any(t.kernel == kernel.name and not t.is_handwritten for t in tiles.tilings):
        return None
    layer = layer_of(kernel.name, tiles)
    return found if layer is None or goes_by_hand(layer, found) else None


def layer_of(kernel: str, tiles: TilePlan) -> Layer | None:
    """Return the layer that a kernel is, None if it is in no strip."""
    layers = (layer for strip in tiles.strips for layer in strip.layers)
    return next((layer for layer in layers if layer.kernel == kernel), None)


def goes_by_hand(layer: Layer, found: Handwriting) -> bool:
    """Say whether a hand-written kernel computes the rows of a layer."""
    is_cut = layer.passes and layer.columns not in found.columns
    return not (found.obstacle or layer.sums or layer.axis not in found.rows or is_cut)


def scratch_of(kernel: Kernel, tiles: TilePlan) -> Scratch | None:
    """Return the working memory that a kernel needs under a plan, None if it needs none."""
    found = handwritten_kernel(kernel, tiles)
    if found is None or not found.scratch:
        return None
    (scratch,) = found.scratch
    form = found.forms[form_of(kernel.name, tiles)]
    layer = layer_of(kernel.name, tiles)
    count = form.count_of(layer.most_columns) if layer else form.count
    return replace(scratch, count=count) if count else None


def form_of(kernel: str, tiles: TilePlan) -> int:
    """Return which form of its hand-written kernel computes a node."""
    for tiling in tiles.tilings:
        if tiling.kernel == kernel:
            return tiling.form
    return next((tile.form for tile in tiles.tiles if tile.kernel == kernel), 0)


def bytes_of(working: Sums | Scratch) -> int:
    """Return the bytes of working memory."""
    return working.count * DTYPES[working.dtype].bits // 8
