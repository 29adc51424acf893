"""What strips change in a schedule: which steps run together, what is a ring, what may overlap."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.schedule import Buffer
from dlbuild.ir.target import Memory
from dlbuild.ir.tile_plan import Ring, TilePlan
from dlbuild.stages.problem import Apart
from dlbuild.stages.sharing import RowWise


@dataclass(frozen=True)
class Together:
    """The strips of a tile plan as steps of a schedule: one step for each tile."""

    tiles: TilePlan

    @cached_property
    def strip_of(self) -> dict[str, int]:
        """The number of each kernel's strip, from 1."""
        strips = enumerate(self.tiles.strips, start=1)
        return {
            name: number
            for number, strip in strips
            for name in (*strip.views, *(layer.kernel for layer in strip.layers))
        }

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """For each step the steps [first, last) that run at the same time."""
        numbers = [self.strip_of.get(tile.kernel, 0) for tile in self.tiles.tiles]
        return tuple(
            (numbers.index(n), len(numbers) - numbers[::-1].index(n)) if n else (step, step + 1)
            for step, n in enumerate(numbers)
        )

    def span(self, strip: int) -> tuple[int, int]:
        """Return the steps [first, last) of a strip by its number."""
        return next(
            span
            for tile, span in zip(self.tiles.tiles, self.spans, strict=True)
            if self.strip_of.get(tile.kernel) == strip
        )

    @cached_property
    def rings(self) -> dict[str, Ring]:
        """The tensors that are never there as a whole."""
        return {ring.tensor: ring for strip in self.tiles.strips for ring in strip.rings}

    @cached_property
    def row_wise(self) -> RowWise:
        """What sharing has to know."""
        sizes = {name: ring.rows * ring.row_bytes for name, ring in self.rings.items()}
        return RowWise(frozenset(self.strip_of), sizes)

    def ringed(self, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """Return the buffers of a block, rings as small as they are."""
        return tuple(
            replace(b, rows=ring.rows, size_bytes=ring.rows * ring.row_bytes)
            if (ring := self.rings.get(b.alias_of) or self.rings.get(b.tensor))
            else b
            for b in buffers
        )

    def sums(self, memory: Memory) -> tuple[Buffer, ...]:
        """Return the buffers of partial results and counters."""
        end = len(self.tiles.tiles)
        spans = {
            name: self.span(number)
            for number, strip in enumerate(self.tiles.strips, start=1)
            for layer in strip.layers
            for name in layer.sums
        }
        # Counters say that all is done until the next run.
        spans |= {s.counters: (0, end) for s in self.tiles.strips if s.counters}
        return tuple(
            Buffer(
                found.name,
                memory.name,
                0,
                found.count * size,
                *spans[found.name],
                align_bytes=max(memory.align_bytes, size),
                dtype=found.dtype,
            )
            for found in self.tiles.sums
            for size in [DTYPES[found.dtype].bits // 8]
        )

    def apart(
        self, blocks: Sequence[Sequence[Buffer]], clear: frozenset[str], of: frozenset[str]
    ) -> tuple[Apart, ...]:
        """Return the blocks that may lie on each other, as far as they meet in one strip alone.

        Args:
            blocks: of buffers that share their bytes.
            clear: tensors that never lie on those of `of`.
            of: see clear.
        """
        block_of = {b.tensor: block for block in blocks for b in block}
        found = []
        for number, strip in enumerate(self.tiles.strips, start=1):
            first, last = self.span(number)
            for overlap in strip.overlaps:
                upper, lower = block_of.get(overlap.upper, ()), block_of.get(overlap.lower, ())
                ends = upper and max(b.last_step for b in upper) <= last
                begins = lower and min(b.first_step for b in lower) >= first
                is_barred = _holds(lower, clear) and _holds(upper, of)
                if ends and begins and not is_barred and _is_whole(upper) and _is_whole(lower):
                    names = [b.tensor for block in (upper, lower) for b in block if not b.alias_of]
                    found.append(Apart(names[0], names[1], overlap.distance_bytes))
        return tuple(found)


def _holds(block: Sequence[Buffer], names: frozenset[str]) -> bool:
    return any(buffer.tensor in names for buffer in block)


def _is_whole(block: Sequence[Buffer]) -> bool:
    """Say whether every member of a block is all of it."""
    return len({(b.offset_bytes, b.size_bytes) for b in block}) == 1
