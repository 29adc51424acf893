"""Check that the strips of a plan are made of its kernels, and its rings of their rows."""

from collections.abc import Iterator

from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Buffer, Schedule, Step
from dlbuild.ir.tile_plan import Strip, TilePlan


def ring_bytes(tiles: TilePlan, buffer: Buffer, tensor_bytes: int) -> int:
    """Return the bytes that a buffer must have: all of its tensor, or the rows that are kept."""
    names = (buffer.tensor, buffer.alias_of)
    rings = [ring for strip in tiles.strips for ring in strip.rings if ring.tensor in names]
    for ring in rings:
        row = tensor_bytes // ring.extent
        if ring.columns:
            row = row // _columns(tiles, ring.tensor) * ring.columns
        if ring.rows == buffer.rows and ring.row_bytes == row:
            return ring.rows * ring.row_bytes
    return 0 if rings or buffer.rows else tensor_bytes


def _columns(tiles: TilePlan, tensor: str) -> int:
    """Return how many columns those who read a tensor say that it has."""
    layers = (layer for strip in tiles.strips for layer in strip.layers)
    return next(r.extent for layer in layers for r in layer.across if r.tensor == tensor)


def strip_faults(profile: Profile, tiles: TilePlan, schedule: Schedule) -> Iterator[str]:
    """Yield where the steps of a strip are not its layers, in order, with nothing between them."""
    for number, strip in enumerate(tiles.strips, start=1):
        steps = [step for step in schedule.steps if step.strip == number]
        layers = [layer.kernel for layer in strip.layers]
        if [step.kernel for step in steps] != [*strip.views, *layers]:
            yield f"the steps of strip {number} are not its layers"
        elif steps[-1].number - steps[0].number != len(steps) - 1:
            yield f"the steps of strip {number} are not neighbours"
        for layer in strip.layers:
            kernel = profile.kernel[layer.kernel]
            due = {strip.streamed if n in _seen(profile, strip) else n for n in kernel.reads}
            if {read.tensor for read in layer.reads} != due:
                yield f"{layer.kernel} reads {kernel.reads}, its rows something else"
            if (layer.writes,) != kernel.writes:
                yield f"{layer.kernel} writes {kernel.writes}, its rows {layer.writes}"
    for step in schedule.steps:
        if not 0 <= step.strip <= len(tiles.strips):
            yield f"{_at(step)} is in strip {step.strip}, which does not exist"


def _seen(profile: Profile, strip: Strip) -> frozenset[str]:
    """Return the streamed input under all the names that the views in front of a strip give it."""
    names = {strip.streamed}
    for view in strip.views:
        kernel = profile.kernel[view]
        if kernel.alias is not None and kernel.alias.source in names:
            names.update(kernel.writes)
    return frozenset(names)


def _at(step: Step) -> str:
    return f"step {step.number} ({step.kernel})"
