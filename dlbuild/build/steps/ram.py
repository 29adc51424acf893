"""Do the arenas of all models of a target fit together?"""

from collections.abc import Sequence

from dlbuild.build.job import ModelFiles
from dlbuild.ir import codec
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Target
from dlbuild.stages.budget import ARENA, WINDOWS, Demand, check_target
from dlbuild.stages.problem import Bytes


def check(target: Target, models: Sequence[ModelFiles]) -> None:
    """Refuse models that together exceed the budget of a memory."""
    check_target(target, arenas(models))


def arenas(models: Sequence[ModelFiles]) -> list[Demand]:
    """Return what each model's arena takes, and its windows in near memories."""
    return [
        Demand(
            model.model,
            use.memory,
            Bytes(use.height_bytes),
            WINDOWS if use.is_near else ARENA,
            model.options.share,
        )
        for model in models
        for use in codec.decode(model.files["schedule"], Schedule).memories
    ]
