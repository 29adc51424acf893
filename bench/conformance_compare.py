"""Whether an output of a node test is what is due."""

import numpy as np

from dlbuild.ir.weights import Array, dtype_name

NARROW_RTOL = 1e-2
LEAST_ATOL = 1e-5


def fault_in(found: Array, due: Array, rtol: float, atol: float) -> str:
    """Say how an array differs from the one due; nothing if it does not."""
    if dtype_name(found) != dtype_name(due) or found.shape != due.shape:
        return f"is {dtype_name(found)}{list(found.shape)}, not {dtype_name(due)}{list(due.shape)}"
    if "float" not in dtype_name(due):
        n_apart = int(np.count_nonzero(found != due))
        return f"differs in {n_apart} of {due.size} elements" if n_apart else ""
    ours, theirs = found.astype(np.float64), due.astype(np.float64)
    if due.dtype.itemsize < np.dtype(np.float32).itemsize:
        rtol = max(rtol, NARROW_RTOL)
    atol = max(atol, LEAST_ATOL)
    near = np.isclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    if near.all():
        return ""
    with np.errstate(invalid="ignore"):
        apart = np.nanmax(np.abs(ours - theirs))
    return f"differs in {int((~near).sum())} of {due.size} elements, at most by {apart:g}"
