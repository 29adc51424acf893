"""Do the code and the tables of all models of a target fit together?"""

from collections.abc import Sequence

from dlbuild.base.errors import UserError
from dlbuild.base.units import bytes_text
from dlbuild.build.job import ModelFiles
from dlbuild.build.sizes import Sizes, decode_sizes
from dlbuild.build.steps.ram import arenas
from dlbuild.ir.target import Target
from dlbuild.run.size import code_memory, flash_memory
from dlbuild.stages.budget import Demand, check_target
from dlbuild.stages.problem import Bytes


def check(target: Target, models: Sequence[ModelFiles]) -> None:
    """Refuse models that together exceed the budget of a memory; it may hold arenas as well.

    Weights that are flashed apart lie in the memory of weights, the code in that of code.
    """
    sizes = {model.model: decode_sizes(model.files["size"]) for model in models}
    _check_images(target, models, sizes)
    tables, code = flash_memory(target), code_memory(target)
    if tables is None:
        return
    demands = []
    for model in models:
        found, is_apart = sizes[model.model], model.options.weights == "image"
        home = code if code and is_apart else tables
        what = "code" if is_apart else "code and tables"
        demands.append(Demand(model.model, home.name, Bytes(found.flash_bytes), what))
        if is_apart:
            size_bytes = Bytes(_slot_bytes(model, found))
            demands.append(Demand(model.model, tables.name, size_bytes, "weight image"))
    check_target(target, [*arenas(models), *demands])


def _slot_bytes(model: ModelFiles, sizes: Sizes) -> int:
    """Return the flash that is kept for an image."""
    slot = model.options.image_slot_bytes
    return sizes.image_bytes if slot is None else slot


def _check_images(target: Target, models: Sequence[ModelFiles], sizes: dict[str, Sizes]) -> None:
    """Refuse an image that its slot has no room for, and two at one address."""
    placed: list[tuple[int, int, str]] = []
    for model in models:
        if model.options.weights != "image":
            continue
        where, size_bytes = f"{model.model}@{target.name}", sizes[model.model].image_bytes
        room = _slot_bytes(model, sizes[model.model])
        if size_bytes > room:
            raise UserError(
                f"the weight image has {bytes_text(size_bytes)}, its slot {bytes_text(room)}",
                where=where,
                fix=f"set image_slot: {size_bytes} B",
            )
        if model.options.image_address is not None:
            address = model.options.image_address
            placed.append((address, address + room, where))
    for (_, end, lower), (first, _, upper) in zip(sorted(placed), sorted(placed)[1:], strict=False):
        if first < end:
            raise UserError(
                f"its weight image would lie on that of {lower.partition('@')[0]}",
                where=upper,
                why=f"that ends at {end:#010x}, this begins at {first:#010x}",
                fix=f"set image_address: {end:#010x} or higher",
            )
