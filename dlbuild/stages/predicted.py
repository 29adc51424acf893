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
