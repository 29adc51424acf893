"""Check the working memory of hand-written kernels, sharing no code with what placed it."""

from collections.abc import Iterator, Mapping

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.schedule import Buffer, Schedule
from dlbuild.ir.tile_plan import TilePlan, handwritten_kernel


def needed_scratch(profile: Profile, tiles: TilePlan) -> Mapping[str, int]:
    """Return the bytes of each buffer of working memory that a plan must have."""
    needed: dict[str, int] = {}
    for kernel in profile.kernels:
        if _is_near(kernel.name, tiles):
            continue
        size = _bytes_of(kernel, tiles)
        if size:
            name = _buffer_of(kernel, tiles)
            needed[name] = max(needed.get(name, 0), size)
    return needed


def _bytes_of(kernel: Kernel, tiles: TilePlan) -> int:
    """Return the bytes that a kernel works in, as its form needs them, whole or row by row."""
    found = handwritten_kernel(kernel, tiles)
    size = 0
    if found is None:
        return size
    for one in found.scratch:
        (tile, *_) = (tile for tile in tiles.tiles if tile.kernel == kernel.name)
        form = found.forms[tile.form]
        numbers = form.count
        for layer in (a for s in tiles.strips for a in s.layers if a.kernel == kernel.name):
            widest = max((end - first for first, end in layer.passes), default=form.columns)
            numbers = form.row_count - (form.columns - widest) * form.by_column
        size += numbers * DTYPES[one.dtype].bits // 8
    return size


def scratch_faults(profile: Profile, tiles: TilePlan, schedule: Schedule) -> Iterator[str]:
    """Yield each step whose working memory is not alive or too small."""
    for step in schedule.steps:
        kernel = profile.kernel[step.kernel]
        size = _bytes_of(kernel, tiles)
        if not size or not step.is_code or _is_near(step.kernel, tiles):
            continue
        buffer = schedule.buffer.get(_buffer_of(kernel, tiles))
        if buffer is None or buffer.size_bytes < size:
            yield f"step {step.number} ({step.kernel}) has no scratch of {size} B"
        elif not buffer.first_step <= step.number < buffer.last_step:
            yield f"the scratch of step {step.number} ({step.kernel}) is not alive there"


def _is_near(kernel: str, tiles: TilePlan) -> bool:
    """Tell whether a kernel's working memory lies beside its windows; see `audit_tiles`."""
    return any(tiling.kernel == kernel for tiling in tiles.tilings)


def is_one_room(one: Buffer, other: Buffer) -> bool:
    """Tell whether two buffers are working memory of one strip, whose layers keep nothing in it."""
    rooms = [b.tensor.removeprefix(f"{b.dtype} ") for b in (one, other) if b.dtype]
    return len(rooms) > 1 and rooms[0] == rooms[1] and rooms[0].startswith("scratch of strip ")


def _buffer_of(kernel: Kernel, tiles: TilePlan) -> str:
    strips = [n for n, s in enumerate(tiles.strips) if kernel.name in [a.kernel for a in s.layers]]
    if not strips:
        return f"scratch of {kernel.name}"
    dtypes = [scratch.dtype for scratch in kernel.handwriting.scratch] if kernel.handwriting else []
    return f"{' '.join(dtypes)} scratch of strip {strips[0] + 1}"
