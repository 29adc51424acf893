"""What parse computes from the numbers of constants, and what it asks about them.

Each depends on its arguments alone, and on all of them, so that it can be done again with other
numbers (`ir.derivation`). Nothing heavier than numpy is imported.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbuild.ir.weights import Array, numpy_dtype

NEAR = 1e-5
"""Relative difference up to which two scales mean the same (they were rounded to float32)."""


def scalar(array: Array) -> Array:
    """Return an array of one element without its axes."""
    return array.reshape(())


def steps_of_bias(  # noqa: PLR0913 - the arrays and how they are meant
    values: Array,
    one: Array,
    other: Array,
    *more: Array,
    has_zero: bool,
    has_scale: bool,
    factor: float,
    count: int,
) -> Array:
    """Return a bias in whole steps of the scales `one` * `other`.

    Args:
        values: reals, or with `has_scale` integers.
        one: the scale of the operand.
        other: the scale of the weights, or those of its channels.
        more: the scale of `values` and its zero point, as far as they are there.
        has_zero: whether there is a zero point.
        has_scale: whether there is a scale.
        factor: by which the bias is multiplied.
        count: how many are wanted.
    """
    step = one.astype(np.float64).reshape(-1) * other.astype(np.float64).reshape(-1)
    found = values.astype(np.float64).reshape(-1)
    if has_zero:
        found = found - np.reshape(more[-1].astype(np.float64), -1)
    scale = more[0].astype(np.float64).reshape(-1) if has_scale else None
    limit = np.iinfo(np.int32)
    steps = np.rint(np.nan_to_num(_in_steps(found, scale, step, factor)))
    return np.broadcast_to(np.clip(steps, limit.min, limit.max), (count,)).astype(np.int32)


def _in_steps(
    values: npt.NDArray[np.float64],
    scale: npt.NDArray[np.float64] | None,
    step: npt.NDArray[np.float64],
    factor: float,
) -> npt.NDArray[np.float64]:
    """Return reals (or integers of `scale`) divided by the step."""
    with np.errstate(all="ignore"):
        if scale is None:
            return values * factor / step
        ratio = scale * factor / step
        # A bias that was made for these scales is taken as it is, to the last bit.
        return values * np.where(np.abs(ratio - 1) < NEAR, 1.0, ratio)


def quantized(scale: Array, *more: Array, dtype: str, has_zero: bool) -> Array:
    """Return the integer of one real number, by the formula of QuantizeLinear.

    Args:
        scale: of the integers.
        more: their zero point with `has_zero`, then the real number; it is 0 if it is not given.
        dtype: of the integers.
        has_zero: whether there is a zero point.
    """
    kind = numpy_dtype(dtype)
    limits = np.iinfo(kind.name)
    zero = int(more[0].reshape(-1)[0]) if has_zero else 0
    value = float(more[-1].reshape(-1)[0].item()) if len(more) > has_zero else 0.0
    with np.errstate(all="ignore"):
        steps = np.rint(np.float32(value) / np.float32(scale.reshape(-1)[0]))
    if np.isnan(steps):
        steps = np.float32(0)
    return np.array(int(np.clip(float(steps) + zero, limits.min, limits.max)), dtype=kind)


def scaled_weights(
    weights: Array, scale: Array, variance: Array, *, epsilon: float, shape: Sequence[int]
) -> Array:
    """Return the weights of an operator with the factor of a BatchNormalization in them.

    Args:
        weights: reals.
        scale: of the normalization.
        variance: of the normalization.
        epsilon: what is added to the variance.
        shape: extents that lay the factors over the weights, after those of their groups.
    """
    wide = weights.astype(np.float64)
    factor = _factor(scale, variance, epsilon).reshape(shape)
    if len(shape) > wide.ndim:  # one axis more: the weights by groups
        grouped = wide.reshape(shape[0], -1, *wide.shape[1:])
        return (grouped * factor).reshape(wide.shape).astype(weights.dtype)
    return (wide * factor).astype(weights.dtype)


def shifted_bias(  # noqa: PLR0913 - as above
    kind: Array,
    scale: Array,
    shift: Array,
    mean: Array,
    variance: Array,
    *bias: Array,
    epsilon: float,
    factor: float,
) -> Array:
    """Return the bias of an operator with that of a BatchNormalization in it.

    Args:
        kind: an array of the element type that is wanted.
        scale: of the normalization.
        shift: its bias.
        mean: of the normalization.
        variance: of the normalization.
        bias: that of the operator, if it has one.
        epsilon: what is added to the variance.
        factor: by which the operator multiplies its bias.
    """
    by = _factor(scale, variance, epsilon)
    offset = shift.astype(np.float64) - mean.astype(np.float64) * by
    old = bias[0].astype(np.float64) * factor if bias else np.zeros(len(by))
    result = np.broadcast_to(old.reshape(-1), (len(by),)) * by + offset
    return result.astype(kind.dtype)


def _factor(scale: Array, variance: Array, epsilon: float) -> npt.NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)


def all_zero(array: Array) -> bool:
    """Say whether all elements are zero."""
    return not array.any()


def equal(one: Array, other: Array) -> bool:
    """Say whether two arrays have the same type and elements, whatever their axes."""
    return one.dtype == other.dtype and np.array_equal(one.reshape(-1), other.reshape(-1))


def narrow(array: Array) -> bool:
    """Say whether no element is the least integer of its type."""
    if array.dtype.kind != "i":
        return False
    return bool((array != np.array(np.iinfo(array.dtype.name).min, array.dtype)).all())


def quantized_to_end(
    scale: Array, *more: Array, dtype: str, has_zero: bool, is_least: bool
) -> bool:
    """Say whether `quantized` gives the least or the greatest integer of the type."""
    ends = np.iinfo(numpy_dtype(dtype).name)
    value = int(quantized(scale, *more, dtype=dtype, has_zero=has_zero))
    return value == (ends.min if is_least else ends.max)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (scalar, steps_of_bias, quantized, scaled_weights, shifted_bias)
}
"""What makes arrays of arrays, by its name in a derivation."""

QUESTIONS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function for function in (all_zero, equal, narrow, quantized_to_end)
}
"""What is asked about arrays, by its name in a derivation."""
