"""What kernels cost by the target's cost table alone."""

from dlbuild.ir.costs import Costs, KernelCost
from dlbuild.ir.profile import Kernel, Profile

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
