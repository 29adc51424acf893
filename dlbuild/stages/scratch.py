"""Working memory of hand-written kernels: a buffer for each step, one for all steps of a strip."""

from collections.abc import Mapping

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Profile, Scratch
from dlbuild.ir.schedule import Buffer
from dlbuild.ir.target import Memory
from dlbuild.ir.tile_plan import TilePlan, scratch_of
from dlbuild.stages.together import Together


def scratch_name(kernel: str, tiles: TilePlan) -> str:
    """Return the name of the buffer that a kernel's working memory lies in."""
    for number, strip in enumerate(tiles.strips, start=1):
        if any(layer.kernel == kernel for layer in strip.layers):
            return f"scratch of strip {number}"
    return f"scratch of {kernel}"


def scratches(profile: Profile, tiles: TilePlan) -> Mapping[str, Scratch]:
    """Return the working memory that a plan needs, by its name.

    The layers of a strip run one after the other and keep nothing in it, so they share it.
    """
    found: dict[str, Scratch] = {}
    # That of kernels in a near memory is a buffer there.
    near = {tiling.kernel for tiling in tiles.tilings}
    for kernel in profile.kernels:
        own = None if kernel.name in near else scratch_of(kernel, tiles)
        if own is not None:
            name = scratch_name(kernel.name, tiles)
            count = max(own.count, found[name].count if name in found else 0)
            found[name] = Scratch(name, own.dtype, count)
    return found


def scratch_buffers(
    profile: Profile, tiles: TilePlan, arenas: Mapping[str, Memory], clusters: Mapping[str, str]
) -> tuple[Buffer, ...]:
    """Return the buffers of working memory, in bytes from 0, alive while their steps run.

    arenas: of each cluster. clusters: of each kernel.
    """
    together = Together(tiles)
    memory_of = {
        scratch_name(tile.kernel, tiles): arenas[clusters[tile.kernel]] for tile in tiles.tiles
    }
    spans: dict[str, list[int]] = {}
    for tile, (first, last) in zip(tiles.tiles, together.spans, strict=True):
        spans.setdefault(scratch_name(tile.kernel, tiles), []).extend((first, last))
    return tuple(
        Buffer(
            name,
            memory_of[name].name,
            0,
            scratch.count * size,
            min(spans[name]),
            max(spans[name]),
            align_bytes=max(memory_of[name].align_bytes, size),
            dtype=scratch.dtype,
        )
        for name, scratch in scratches(profile, tiles).items()
        for size in [DTYPES[scratch.dtype].bits // 8]
    )
