"""Windows in a near memory as buffers of a schedule: each is there while its kernel runs."""

from collections.abc import Iterator, Sequence

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.schedule import Buffer
from dlbuild.ir.target import Target
from dlbuild.ir.tile_plan import TilePlan


def window_name(operand: str, kernel: str, level: int = 0) -> str:
    """Return the name of the buffer that the windows of an operand of a kernel lie in.

    level: 0 in the nearest memory, 1 in the one between.
    """
    return f"{operand} of {kernel}{' on its way' if level else ''}"


def near_buffers(tiles: TilePlan, kernels: Sequence[str], target: Target) -> Iterator[Buffer]:
    """Yield the windows of each kernel. kernels: of each step."""
    aligns = {memory.name: memory.align_bytes for memory in target.memories}
    for tiling in tiles.tilings:
        step = kernels.index(tiling.kernel)
        for level, found in enumerate(tiling.levels):
            for b in found.buffers:
                yield Buffer(
                    window_name(b.operand, tiling.kernel, level),
                    found.memory,
                    b.offset_bytes,
                    b.copies * b.stride_bytes,
                    step,
                    step + 1,
                    max(aligns[found.memory], DTYPES[b.dtype].bits // 8),
                    dtype=b.dtype,
                )
