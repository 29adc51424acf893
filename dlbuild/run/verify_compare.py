"""How far two tensors are apart, and whether that is near enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Tensor
from dlbuild.ir.weights import Array

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a recipe asks for; None takes the default of the element type (CONFIG.md).

    rtol, atol: for floats; |a - b| <= atol + rtol * |b|. With `exact`, nothing may differ.
    lsb: for integers.
    """

    rtol: float | None = None
    atol: float | None = None
    lsb: int | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor of all samples against the reference.

    kernel: the C function that made it, empty for a whole run.
    max_abs, max_rel: greatest difference, absolute and as a share of the reference's value; of
        integers max_abs is in LSB. Not a number if one side alone is infinite or not a number.
    n_differing: elements that are not equal. n_outside: elements beyond the limit.
    argmax_agrees: the greatest element along the last axis is at the same place in each row, or
        as great there as the greatest; None where a row has one element.
    limit: what was allowed, as text.
    n_rows: rows of more than one element; n_argmax: of those, where the greatest agrees.
    n_nan: elements that are not a number on both sides. worst: the element furthest beyond its
        limit, and what it should be; nothing if all are within.
    """

    tensor: str
    kernel: str
    dtype: str
    n_elements: int
    n_differing: int
    n_outside: int
    max_abs: float
    max_rel: float
    argmax_agrees: bool | None
    limit: str
    n_rows: int = 0
    n_argmax: int = 0
    n_nan: int = 0
    worst: str = ""

    @property
    def passed(self) -> bool:
        """Whether every element is within the limit."""
        return self.n_outside == 0


@dataclass(frozen=True, slots=True)
class Limit:
    """What one element may differ by; `by_range` multiplies by the reference's greatest value."""

    rtol: float
    atol: float
    by_range: bool = False
    unit: str = ""

    def __str__(self) -> str:
        if self.unit:
            return f"{self.atol:g} {self.unit}"
        return f"rtol {self.rtol:g}{' of the range' if self.by_range else ''}, atol {self.atol:g}"

    def allowed(self, reference: Floats) -> Floats:
        """Return the greatest difference allowed for each element."""
        size = np.where(np.isfinite(reference), np.abs(reference), 0)
        if self.by_range:
            size = np.full_like(size, size.max(initial=0))
        return self.atol + self.rtol * size


def limit_for(dtype: str, tolerance: Tolerance, n_layers: int) -> Limit:
    """Return what an element of `dtype` may differ by after `n_layers` kernels.

    Integers of 32 and 64 bits and truths are counts, places and sums: they must be equal.
    """
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    if tolerance.exact:
        return Limit(0.0, 0.0, unit="LSB" if kind != "float" else "apart")
    if kind == "float":
        rtol, atol = _FLOAT_DEFAULTS.get(bits, (1e-2, 1e-3))
        rtol = rtol if tolerance.rtol is None else tolerance.rtol
        atol = atol if tolerance.atol is None else tolerance.atol
        return Limit(rtol, atol, by_range=bits < _SINGLE)
    if tolerance.lsb is not None:
        return Limit(0.0, float(tolerance.lsb), unit="LSB")
    return Limit(0.0, float(n_layers if kind != "bool" and bits < _SINGLE else 0), unit="LSB")


_SINGLE = 32
_FLOAT_DEFAULTS = {32: (1e-4, 1e-5), 64: (1e-9, 1e-12)}


def compare(
    tensor: Tensor,
    kernel: str,
    pairs: Sequence[tuple[Array, Array]],
    limit: Limit,
    slack: Sequence[Floats] = (),
) -> Comparison:
    """Compare each (actual, reference) pair of one tensor, one for each sample.

    tensor, kernel: the tensor and the function that made it, or the empty text.
    pairs: arrays of the tensor's type and shape.
    limit: how far apart elements may be.
    slack: what each element of each sample may differ by beyond the limit; none = nothing.
    """
    n_differing = n_outside = n_elements = n_rows = n_argmax = n_nan = 0
    max_abs = max_rel = furthest = 0.0
    worst = ""
    for number, (actual, reference) in enumerate(pairs):
        distance = _distance(actual, reference)
        numbers = reference.astype(np.float64)
        allowed = limit.allowed(numbers) + (slack[number] if slack else 0.0)
        n_elements += actual.size
        n_differing += int(np.count_nonzero(distance))
        n_outside += int(np.count_nonzero(~(distance <= allowed)))
        max_abs = _greatest(max_abs, distance)
        max_rel = _greatest(max_rel, _share(distance, numbers))
        n_nan += int(np.count_nonzero(np.isnan(numbers) & np.isnan(actual.astype(np.float64))))
        beyond = _beyond(distance, allowed)
        if beyond.max(initial=0.0) > furthest:
            furthest, worst = float(beyond.max()), _element(number, beyond, actual, reference)
        agree = _argmax_agrees(actual.astype(np.float64), numbers)
        n_rows += agree.size
        n_argmax += int(np.count_nonzero(agree))
    return Comparison(
        tensor=tensor.name,
        kernel=kernel,
        dtype=tensor.dtype,
        n_elements=n_elements,
        n_differing=n_differing,
        n_outside=n_outside,
        max_abs=max_abs,
        max_rel=max_rel,
        argmax_agrees=n_argmax == n_rows if n_rows else None,
        limit=str(limit),
        n_rows=n_rows,
        n_argmax=n_argmax,
        n_nan=n_nan,
        worst=worst,
    )


def _beyond(distance: Floats, allowed: Floats) -> Floats:
    """How far each element is beyond its limit; without end if only one side is a number."""
    return np.where(np.isnan(distance), np.inf, np.maximum(distance - allowed, 0.0))


def _element(number: int, beyond: Floats, actual: Array, reference: Array) -> str:
    """Name the element furthest beyond its limit, by its sample and its place."""
    at = np.unravel_index(int(beyond.argmax()), beyond.shape)
    place = "".join(f"[{int(index)}]" for index in at)
    return (
        f"{place or 'its one element'} of sample {number}: {actual[at]}, should be {reference[at]}"
    )


_SMALLEST = float(np.finfo(np.float64).tiny)


def _distance(actual: Array, reference: Array) -> Floats:
    """|a - b|, where equal infinities and two NaN are 0 apart, and unequal integers at least 1."""
    a, b = actual.astype(np.float64), reference.astype(np.float64)
    same = (actual == reference) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    if actual.dtype.kind in "iub":  # 64 bits may be equal in float64 and still differ
        apart = np.maximum(apart, 1.0)
    return np.where(same, 0.0, apart)


def _share(distance: Floats, reference: Floats) -> Floats:
    with np.errstate(invalid="ignore", over="ignore"):
        return distance / np.maximum(np.abs(reference), _SMALLEST)


def _greatest(so_far: float, distance: Floats) -> float:
    return float(np.maximum(so_far, distance.max(initial=0.0)))


def _argmax_agrees(a: Floats, b: Floats) -> npt.NDArray[np.bool_]:
    """Say of each row along the last axis whether the greatest agrees; of rows of one nothing."""
    if a.ndim == 0 or a.shape[-1] <= 1 or prod(a.shape) == 0:
        return np.zeros(0, np.bool_)
    at = a.argmax(axis=-1)[..., None]
    agree = np.take_along_axis(b, at, axis=-1) == b.max(axis=-1, keepdims=True)
    return np.asarray(agree, np.bool_)
