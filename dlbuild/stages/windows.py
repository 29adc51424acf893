"""Windows in a near memory as buffers of a schedule: each is there while its kernel runs."""

from collections.abc import Iterator, Mapping, Sequence

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.schedule import Buffer
from dlbuild.ir.target import Target
from dlbuild.ir.tile_plan import TilePlan


def window_name(operand: str, kernel: str) -> str:
    """Return the name of the buffer that the windows of an operand of a kernel lie in."""
    return f"{operand} of {kernel}"


def window_bytes(tiles: TilePlan) -> Mapping[str, int]:
    """Return the bytes of the windows that a plan needs, by their names."""
    return {
        window_name(b.operand, tiling.kernel): b.copies * b.stride_bytes
        for tiling in tiles.tilings
        for b in tiling.buffers
    }


def near_buffers(tiles: TilePlan, kernels: Sequence[str], target: Target) -> Iterator[Buffer]:
    """Yield the windows of each kernel. kernels: of each step."""
    aligns = {memory.name: memory.align_bytes for memory in target.memories}
    for tiling in tiles.tilings:
        step = kernels.index(tiling.kernel)
        for b in tiling.buffers:
            yield Buffer(
                window_name(b.operand, tiling.kernel),
                tiling.memory,
                b.offset_bytes,
                b.copies * b.stride_bytes,
                step,
                step + 1,
                max(aligns[tiling.memory], DTYPES[b.dtype].bits // 8),
                dtype=b.dtype,
            )
