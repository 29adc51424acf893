"""What kernels cost by the target's cost table alone."""

from dlbuild.ir.costs import Costs, KernelCost
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Target
from dlbuild.rulebook.cost import cost
from dlbuild.rulebook.instance import Instance
from dlbuild.stages.forms import NEST_COST
from dlbuild.stages.profile import predicted_cycles

PREDICTED = "cycles"
"""The unit of predictions: those of the target's cost table."""


def predicted(profile: Profile) -> Costs:
    """Return the costs of a profile that nobody measured."""
    return Costs(PREDICTED, tuple(KernelCost(k.name, predicted_time(k)) for k in profile.kernels))


def predicted_time(kernel: Kernel) -> int:
    """Return the prediction; a view needs no code, as a rule."""
    return 0 if kernel.alias is not None else kernel.cycles


def scaled(profile: Profile, other: Profile, costs: Costs) -> Costs:
    """Return predictions in the unit of what another profile of the same target costs.

    Args:
        profile: what nobody measured.
        other: what is known.
        costs: of that.
    """
    guessed = sum(predicted_time(kernel) for kernel in other.kernels)
    ratio = costs.total / guessed if guessed else 1.0
    found = (KernelCost(k.name, round(ratio * predicted_time(k))) for k in profile.kernels)
    return Costs(costs.unit, tuple(found))


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
