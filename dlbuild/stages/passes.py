"""Rows computed in several passes, a part of the columns in each: less to keep, more to compute.

Of a layer's columns a pass needs what the layers behind it read; at the borders of passes those are
computed again. Rows of rings shrink to the columns of a pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.ir.profile import Profile
from dlbuild.ir.tile_plan import Layer, Ring, TilePlan

PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Into so many passes a strip's last layer is divided, as far as it has the columns."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """Layers and rings in passes. macs: multiplications of all passes together."""

    layers: tuple[Layer, ...]
    rings: tuple[Ring, ...]
    macs: int


def cuttings(
    layers: Sequence[Layer],
    rings: Sequence[Ring],
    columns: Mapping[str, int],
    macs: Mapping[str, int],
) -> Iterator[Cutting]:
    """Yield the ways to divide the columns of the last layer.

    Args:
        layers: of a strip, each with `across`; the last one's output alone is there as a whole.
        rings: what they keep of rows.
        columns: of the output of each layer's kernel.
        macs: of each kernel.
    """
    last = layers[-1]
    width = columns[last.kernel]
    for size in sorted({-(-width // parts) for parts in PARTS if parts <= width}, reverse=True):
        ends = [(at, min(at + size, width)) for at in range(0, width, size)]
        windows = [_windows(layers, end) for end in ends]
        cut = tuple(
            replace(layer, passes=tuple(window[layer.writes] for window in windows))
            for layer in layers
        )
        most = {layer.writes: layer.most_columns for layer in cut}
        work = sum(
            macs[layer.kernel]
            * sum(end - first for first, end in layer.passes)
            // columns[layer.kernel]
            for layer in cut
        )
        whole = {layer.writes: columns[layer.kernel] for layer in layers}
        narrow = tuple(
            replace(
                ring,
                columns=most[ring.tensor],
                row_bytes=ring.row_bytes // whole[ring.tensor] * most[ring.tensor],
            )
            for ring in rings
        )
        yield Cutting(cut, narrow, work)


def _windows(layers: Sequence[Layer], wanted: tuple[int, int]) -> Mapping[str, tuple[int, int]]:
    """Return the columns of each layer's output that a pass needs."""
    found = {layers[-1].writes: wanted}
    for layer in reversed(layers):
        first, end = found[layer.writes]
        for read in layer.across:
            low, high = read.first(first), read.end(end - 1)
            before = found.get(read.tensor, (low, high))
            found[read.tensor] = min(before[0], low), max(before[1], high)
    return found


def again_macs(profile: Profile, tiles: TilePlan) -> int:
    """Return the multiplications that a plan does more than once."""
    found = 0
    for kernel, (computed, columns) in computed_columns(tiles).items():
        macs = profile.kernel[kernel].macs
        found += max(macs * computed // columns - macs, 0)
    return found


def computed_columns(tiles: TilePlan) -> dict[str, tuple[int, int]]:
    """Return how many columns of each kernel's output all passes compute, and how many it has.

    Kernels that are computed in several passes alone.
    """
    found = {}
    for strip in tiles.strips:
        counts = {read.tensor: read.extent for layer in strip.layers for read in layer.across}
        for layer in strip.layers:
            if layer.passes:
                computed = sum(end - first for first, end in layer.passes)
                found[layer.kernel] = computed, counts.get(layer.writes, layer.passes[-1][1])
    return found
