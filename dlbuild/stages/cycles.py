"""What a kernel takes by the target's cost table."""

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Handwriting, Kernel
from dlbuild.ir.target import Target
from dlbuild.rulebook.cost import Cost, cost
from dlbuild.rulebook.instance import Instance
from dlbuild.stages.forms import NEST_COST

CYCLES_OF_A_MAC = 1.0
"""For an element type that the target does not mention."""


def predicted_cycles(
    work: Cost, target: Target, handwriting: Handwriting | None = None, written: int = 0
) -> int:
    """Return what the target says of a hand-written kernel that computes it, else of loops.

    Of loops so many cycles for each MAC of its type, and one for each further operator; of a
    hand-written kernel that the target does not know a part of that.

    Args:
        work: what is computed.
        target: the chip.
        handwriting: the rule's hand-written kernel, or why it computes nothing here.
        written: elements.
    """
    is_faster = handwriting is not None and not handwriting.obstacle
    rate = target.kernels.get(handwriting.name) if handwriting is not None else None
    if is_faster and rate is not None:
        return round(work.macs * rate.mac + written * rate.output)
    macs = sum(count * _cycles_of(dtype, target) for dtype, count in work.macs_of)
    loops = round(macs) + work.further_flops
    return round(loops / NEST_COST) if is_faster else loops


def _cycles_of(dtype: str, target: Target) -> float:
    signed = f"int{DTYPES[dtype].bits}" if DTYPES[dtype].kind == "uint" else dtype
    return target.cycles.get(dtype, target.cycles.get(signed, CYCLES_OF_A_MAC))


def loops_cost(kernel: Kernel, instance: Instance, target: Target) -> float:
    """Return how long loops take over what is predicted of a kernel, which may be hand-written.

    instance: of the kernel, as its rule gives it.
    """
    faster = kernel.handwriting
    if faster is None or faster.obstacle:
        return 1.0
    if faster.name not in target.kernels or not kernel.cycles:
        return NEST_COST
    return max(predicted_cycles(cost(instance), target) / kernel.cycles, 1.0)
