"""Do the code and the tables of all models of a target fit together?"""

from collections.abc import Sequence

from dlbuild.build.job import ModelFiles
from dlbuild.build.sizes import decode_sizes
from dlbuild.build.steps.ram import arenas
from dlbuild.ir.target import Target
from dlbuild.run.size import flash_memory
from dlbuild.stages.budget import Demand, check_target
from dlbuild.stages.problem import Bytes


def check(target: Target, models: Sequence[ModelFiles]) -> None:
    """Refuse models that together exceed the budget of a memory; it may hold arenas as well."""
    memory = flash_memory(target)
    if memory is None:
        return
    demands = [
        Demand(
            model.model,
            memory.name,
            Bytes(decode_sizes(model.files["size"]).flash_bytes),
            "code and tables",
        )
        for model in models
    ]
    check_target(target, [*arenas(models), *demands])
