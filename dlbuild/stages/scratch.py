"""Working memory of hand-written kernels: of each step, shared by all steps of a strip."""

from collections.abc import Mapping
from dataclasses import replace

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Profile, Scratch
from dlbuild.ir.schedule import Buffer
from dlbuild.ir.target import Memory
from dlbuild.ir.tile_plan import TilePlan, bytes_of, scratch_of
from dlbuild.stages.together import Together


def scratch_name(kernel: str, tiles: TilePlan, dtype: str) -> str:
    """Return the name of the buffer that a kernel's working memory lies in. dtype: of it."""
    for number, strip in enumerate(tiles.strips, start=1):
        if any(layer.kernel == kernel for layer in strip.layers):
            return f"{dtype} scratch of strip {number}"
    return f"scratch of {kernel}"


def _scratches(profile: Profile, tiles: TilePlan) -> Mapping[str, Mapping[str, Scratch]]:
    """Return the working memory that a plan needs, by who shares it and its name.

    The layers of a strip run one after the other and keep nothing in it, so they share it.
    """
    found: dict[str, dict[str, Scratch]] = {}
    # That of kernels in a near memory is a buffer there.
    near = {tiling.kernel for tiling in tiles.tilings}
    for kernel in profile.kernels:
        own = None if kernel.name in near else scratch_of(kernel, tiles)
        if own is not None:
            name = scratch_name(kernel.name, tiles, own.dtype)
            shared = found.setdefault(scratch_name(kernel.name, tiles, ""), {})
            count = max(own.count, shared[name].count if name in shared else 0)
            shared[name] = Scratch(name, own.dtype, count)
    return found


def scratch_blocks(
    profile: Profile, tiles: TilePlan, arenas: Mapping[str, Memory], clusters: Mapping[str, str]
) -> tuple[tuple[Buffer, ...], ...]:
    """Return the buffers of working memory, in bytes from 0, alive while their steps run.

    Those of a strip, one for each type of numbers, lie in the bytes of the largest.

    arenas: of each cluster. clusters: of each kernel.
    """
    together = Together(tiles)
    memory_of = {
        scratch_name(tile.kernel, tiles, ""): arenas[clusters[tile.kernel]] for tile in tiles.tiles
    }
    spans: dict[str, list[int]] = {}
    for tile, (first, last) in zip(tiles.tiles, together.spans, strict=True):
        spans.setdefault(scratch_name(tile.kernel, tiles, ""), []).extend((first, last))
    found = []
    for shared, scratches in _scratches(profile, tiles).items():
        memory, steps = memory_of[shared], spans[shared]
        root, *others = sorted(scratches.values(), key=lambda s: -bytes_of(s))
        align = max(DTYPES[scratch.dtype].bits // 8 for scratch in scratches.values())
        whole = Buffer(
            root.name,
            memory.name,
            0,
            bytes_of(root),
            min(steps),
            max(steps),
            align_bytes=max(memory.align_bytes, align),
            dtype=root.dtype,
        )
        parts = (
            replace(whole, tensor=s.name, size_bytes=bytes_of(s), dtype=s.dtype, alias_of=root.name)
            for s in others
        )
        found.append((whole, *parts))
    return tuple(found)
