"""Forms of hand-written kernels: slower ones where their working memory would have no room."""

from collections.abc import Iterator
from dataclasses import dataclass

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Profile
from dlbuild.ir.tile_plan import Layer, Strip, goes_by_hand

NEST_COST = 3
"""How long loops take over the hand-written kernel in whose place they stand, roughly, where the
target does not say.

`dlbuild bench` of digits_int8 for cortex-m4f, with its features and with `features: [fpu]`, shows
1.9 to 3.5 times the instructions of a kernel; for cortex-m55, which has vectors, 5 to 14 times.
"""

POINTS = 3
"""So many points a call of a kernel is given at least, of one row or of several: with fewer, each
weight is read for too little."""


@dataclass(frozen=True, slots=True)
class Forms:
    """Forms of the kernels of a strip, of each layer one; the working memory that they share, and
    what they take longer than the fastest ones, in multiplications.
    """

    forms: tuple[int, ...]
    size_bytes: int
    slow_macs: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """The same of one layer."""

    form: int
    size_bytes: int
    slow_macs: int


def forms_for(strip: Strip, profile: Profile) -> Iterator[Forms]:
    """Yield the forms that a strip may go in: the fastest ones, then such that need less and less.

    The layers share their working memory, so in each size that it may have every layer takes its
    fastest form that fits.
    """
    choices = [sorted(_choices(layer, profile), key=_speed) for layer in strip.layers]
    most = max(of_layer[0].size_bytes for of_layer in choices)
    sizes = {choice.size_bytes for of_layer in choices for choice in of_layer}
    for size in sorted((s for s in sizes if s <= most), reverse=True):
        fitting = [[c for c in of_layer if c.size_bytes <= size] for of_layer in choices]
        if not all(fitting):
            return
        taken = [of_layer[0] for of_layer in fitting]
        if max(choice.size_bytes for choice in taken) == size:
            forms = tuple(choice.form for choice in taken)
            yield Forms(forms, size, sum(choice.slow_macs for choice in taken))


def _speed(choice: _Choice) -> tuple[int, int]:
    return choice.slow_macs, choice.form


def _choices(layer: Layer, profile: Profile) -> Iterator[_Choice]:
    """Yield the forms of a layer's kernel."""
    kernel = profile.kernel[layer.kernel]
    found = kernel.handwriting
    is_by_hand = found is not None and goes_by_hand(layer, found)
    if found is None or found.obstacle or (is_by_hand and not found.scratch):
        yield _Choice(0, 0, 0)
        return
    if not is_by_hand:
        yield _Choice(0, 0, kernel.macs * (NEST_COST - 1))
        return
    (scratch,) = found.scratch
    columns = layer.most_columns
    fastest = min(form.cost_of(columns) for form in found.forms)
    for number, form in enumerate(found.forms):
        size = form.count_of(columns) * DTYPES[scratch.dtype].bits // 8
        yield _Choice(number, size, int(kernel.macs * (form.cost_of(columns) - fastest)))
