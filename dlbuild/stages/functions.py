"""The C functions of a model's kernels, each text once, and the calls of the schedule."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod

from dlbuild.emit.handwritten import render
from dlbuild.emit.kernel import KernelText, Parameter, kernel_comment
from dlbuild.ir.profile import Kernel
from dlbuild.ir.schedule import Schedule, Step
from dlbuild.ir.tile_plan import NEAR_REASON, NO_TILES, TilePlan, handwritten_kernel, resident_names
from dlbuild.rulebook.derive import Orders
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kernels import orders_of
from dlbuild.stages.arena import Places
from dlbuild.stages.constant import Constant
from dlbuild.stages.declaration import TABLES
from dlbuild.stages.parts import given_number, part_instance
from dlbuild.stages.scratch import scratch_name
from dlbuild.stages.sources import Sources
from dlbuild.stages.spaces import space_of, tiling_space


@dataclass(frozen=True, slots=True)
class Call:
    """One step's call: `function(arguments)`."""

    step: Step
    function: str
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        """The call as C on one line, without a semicolon."""
        return f"{self.function}({', '.join(self.arguments)})"


@dataclass(frozen=True, slots=True)
class Functions:
    """Distinct kernel functions in order of first call, and the call of each step with code.

    alone: those that no other function calls, by name. users: the kernels of each of these.
    """

    texts: tuple[KernelText, ...]
    calls: Mapping[int, Call]
    alone: Mapping[str, KernelText]
    users: Mapping[str, tuple[str, ...]]


NOTHING = "NULL"
"""What is handed to a template for a tensor without elements, which has no place."""

_OWN_NAMES = (
    r"(_(?:part_)?(?:tiles|task|task_t|finish|bring_\w+|send_\w+"
    r"|line|results?|sample|sums|window))?"
)
"""What the functions of a kernel are called behind its name: of one that runs through a near
memory, and of one that is hand-written.
"""

_MARK = "\0"
_OWN = re.compile(rf"(?<![\w{_MARK}]){_MARK}{_OWN_NAMES}(?![\w{_MARK}])")


def functions(
    model: Sources, schedule: Schedule, places: Places, tiles: TilePlan = NO_TILES
) -> Functions:
    """Render the kernels of a schedule; steps whose kernels have one text share one function.

    `restrict` stands where the schedule proves that an operand overlaps nothing that is written.
    Steps of strips are not among them: see `strip_code`.
    """
    tile_of = {(tile.kernel, tile.number): tile for tile in tiles.tiles if tile.boxes}
    users: dict[str, list[str]] = {}
    texts: dict[str, tuple[KernelText, ...]] = {}
    calls: dict[int, Call] = {}
    printed = cache(partial(_texts, model, places, tiles, {}))
    for step in schedule.steps:
        if not step.is_code or step.strip:
            continue
        made, owner = printed(step.kernel)
        name = model.face.kernels[owner]
        text = made[-1]
        # The name, and how far it moves the lines under it, is all that may differ.
        whole = " ".join(word for part in made for word in part.text.split())
        key = unnamed(whole, name)
        texts.setdefault(key, made)
        alike = users.setdefault(key, [])
        if step.kernel not in alike:
            alike.append(step.kernel)
        arguments = tuple(_argument(model, places, step.kernel, p, tiles) for p in text.parameters)
        tile = tile_of.get((step.kernel, step.tile))
        if tile is not None:
            arguments += tuple(str(given_number(tile, name)) for name in text.given)
        function = model.face.kernels[alike[0]] + ("_tiles" if len(made) > 1 else "")
        calls[step.number] = Call(step, function, arguments)
    shared: list[KernelText] = []
    names: dict[str, int] = {}
    for key, alike in users.items():
        made = texts[key]
        if len(made) == 1:
            names[model.face.kernels[alike[0]]] = len(shared)
            made = (commented(model, made[0], alike, tiles),)
        shared += made
    if any(NOTHING in call.arguments for call in calls.values()):
        shared[0] = replace(shared[0], includes=(*shared[0].includes, "stddef.h"))
    return Functions(
        tuple(shared),
        calls,
        {name: shared[at] for name, at in names.items()},
        {model.face.kernels[alike[0]]: tuple(alike) for alike in users.values()},
    )


def unnamed(text: str, name: str) -> str:
    """Return the C of a kernel without its name; of what its functions are called the rest stays.

    By a mark, as to compile an expression for each name takes longer than to print some kernels.
    """
    return _OWN.sub(r"\1", text.replace(name, _MARK)).replace(_MARK, name)


def commented(
    model: Sources, text: KernelText, alike: Sequence[str], tiles: TilePlan, more: str = ""
) -> KernelText:
    """Return a function with a comment that names the nodes of all its kernels.

    more: another sentence of it.
    """
    kernel, instance = model.profile.kernel[alike[0]], model.instances[alike[0]]
    anchors = list(dict.fromkeys(model.profile.kernel[name].anchor for name in alike))
    orders = orders_of(kernel, instance, model.profile)
    notes = [note for note in (handwriting_note(kernel, tiles), more) if note]
    # Without another sentence the functions are equal, and so is what is told of them.
    all_of = [model.instances[name] for name in alike] if more else []
    comment = kernel_comment(instance, orders, text.parameters, anchors, notes, all_of)
    return replace(text, comment=comment)


def handwriting_note(kernel: Kernel, tiles: TilePlan) -> str:
    """Return whether the kernel that the rule has for a node computes it, nothing without one."""
    found = kernel.handwriting
    if found is None:
        return ""
    if handwritten_kernel(kernel, tiles) is not None:
        return f"hand-written: {found.name}"
    is_tiled = any(tiling.kernel == kernel.name for tiling in tiles.tilings)
    plan = NEAR_REASON if is_tiled else "its plan needs sums or parts of rows"
    return f"as a nest, not by {found.name}: {found.obstacle or plan}"


def united(parts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the elements of all parts, each once, in order of first occurrence."""
    return tuple(dict.fromkeys(element for part in parts for element in part))


Printed = tuple[tuple[KernelText, ...], str]
"""The functions of a kernel, the last of which is called, and the kernel whose name they have."""


def _texts(
    model: Sources, places: Places, tiles: TilePlan, known: dict[str, Printed], kernel: str
) -> Printed:
    """Print the functions of a kernel.

    known: those that were printed before; only tensors and nodes need to differ.
    """
    instance, name = model.instances[kernel], model.face.kernels[kernel]
    orders = orders_of(model.profile.kernel[kernel], instance, model.profile)
    constants = frozenset(model.graph.constants)
    in_table = frozenset(o.name for o in instance.operands if o.tensor in constants)
    tiling = next((t for t in tiles.tilings if t.kernel == kernel), None)
    if tiling is not None:
        planned = model.profile.kernel[kernel]
        staying = resident_names(model.profile, tiles)
        space = tiling_space(tiling, planned, instance, model.graph, model.profile)
        assert space is not None, "what has a tiling can be cut"
        space = space.without(staying)
        from dlbuild.stages.tile_text import tile_texts  # noqa: PLC0415 - of near memories alone

        made = tile_texts(
            instance,
            name,
            space,
            tiling,
            orders=dict(orders),
            constants=in_table,
            environment=model.environment,
            registers=model.registers,
        )
        return made, kernel
    parts = [tile for tile in tiles.tiles if tile.kernel == kernel and tile.boxes]
    if parts:
        space = space_of(model.profile.kernel[kernel], instance, model.graph, model.profile)
        assert space is not None, "what has parts can be cut"
        instance = part_instance(instance, space, parts)
    restrict = restricted(model, places, instance)
    likeness = _likeness(instance, orders, restrict, in_table)
    if likeness not in known:
        text = render(
            instance,
            name,
            orders,
            restrict=restrict,
            constants=in_table,
            environment=model.environment,
            registers=model.registers,
        )
        known[likeness] = (text,), kernel
    return known[likeness]


def _likeness(
    instance: Instance, orders: Orders, restrict: frozenset[str], in_table: frozenset[str]
) -> str:
    """Return all that the text of a kernel depends on, beside its name and its model.

    As a text, which tells 0.0 from -0.0 and 1 from 1.0.
    """
    operands = tuple(replace(operand, tensor="") for operand in instance.operands)
    unnamed = replace(instance, ops=(), operands=operands)
    return repr((unnamed, sorted(orders.items()), sorted(restrict), sorted(in_table)))


def restricted(model: Sources, places: Places, instance: Instance) -> frozenset[str]:
    """Return the operands that share no byte with another one of which either is written."""
    constants = frozenset(model.graph.constants)
    regions = [
        (operand, places.region(operand.tensor))
        for operand in instance.operands
        if operand.role in ("input", "output") and operand.tensor not in constants
        if prod(operand.shape)
    ]
    shared = {
        ours.name
        for ours, our_region in regions
        for theirs, their_region in regions
        if ours.name != theirs.name
        and "output" in (ours.role, theirs.role)
        and our_region.overlaps(their_region)
    }
    return frozenset(o.name for o in instance.operands if o.name not in shared)


def _argument(
    model: Sources, places: Places, kernel: str, parameter: Parameter, tiles: TilePlan
) -> str:
    table = argument_of_table(model, kernel, parameter)
    if table is not None:
        return table
    operand = model.instances[kernel].operand(parameter.operand)
    if operand.role == "scratch":
        return places.pointer(scratch_name(kernel, tiles, operand.dtype))
    tensor = operand.tensor
    if not prod(operand.shape):
        return NOTHING
    return places.element(tensor) if parameter.by_value else places.pointer(tensor)


def argument_of_table(model: Sources, kernel: str, parameter: Parameter) -> str | None:
    """Return the C expression of a constant, None if the parameter is none."""
    table = model.tables.of.get((kernel, parameter.operand))
    if table is None:
        return None
    if table.form == "scalar" and parameter.by_value:
        return table_pointer(model, table).removeprefix("&")
    return table_pointer(model, table)


def table_pointer(model: Sources, table: Constant) -> str:
    """Return the C expression of a pointer to the first element of a table."""
    symbol = f"{TABLES}->{table.symbol}" if model.options.weights == "image" else table.symbol
    forms = {"scalar": f"&{symbol}", "text": f"{symbol}.at"}
    return forms.get(table.form, symbol)
