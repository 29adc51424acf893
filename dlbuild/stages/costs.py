"""What each kernel costs: its measurement if there is one, else the prediction in its unit."""

import re
from collections.abc import Mapping

from dlbuild.base.digest import digest
from dlbuild.emit.handwritten import render
from dlbuild.emit.helpers import helper_text
from dlbuild.ir.costs import Costs, KernelCost, Measurements
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import NO_TILES
from dlbuild.rulebook.kernels import instances_of, orders_of, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.predicted import PREDICTED, predicted_time
from dlbuild.stages.printer import printer_of


def costs(
    profile: Profile, signatures: Mapping[str, str], measured: Measurements, where: str = ""
) -> Costs:
    """Return what each kernel costs.

    Args:
        profile: the kernels.
        signatures: of each kernel by its name.
        measured: what is known.
        where: the target, of which alone measurements count.
    """
    known = {
        k.name: entry
        for k in profile.kernels
        if (entry := measured.of.get(signatures[k.name])) and entry.target == where
    }
    if not known:
        found = (KernelCost(k.name, predicted_time(k), signatures[k.name]) for k in profile.kernels)
        return Costs(PREDICTED, tuple(found))
    guessed = sum(predicted_time(k) for k in profile.kernels if k.name in known)
    ratio = sum(entry.cost for entry in known.values()) / guessed if guessed else 1.0
    found = (
        KernelCost(k.name, known[k.name].cost, signatures[k.name], is_measured=True)
        if k.name in known
        else KernelCost(k.name, round(ratio * predicted_time(k)), signatures[k.name])
        for k in profile.kernels
    )
    unit = next(iter(known.values())).unit
    return Costs(unit, tuple(found))


def signatures(  # noqa: PLR0913 - keywords; what a kernel's time depends on
    graph: Graph,
    profile: Profile,
    book: RuleBook,
    target: Target,
    options: Options,
    *,
    made_by: Mapping[str, str],
) -> Mapping[str, str]:
    """Return the signature of each kernel by its name: equal if it is the same code.

    It is of the function's text, in which sizes, types and layouts are, of the helpers that it
    calls, of the target's name, and of what compiles and runs it.

    Args:
        graph: the model.
        profile: its kernels.
        book: the rules.
        target: the chip.
        options: of the build.
        made_by: what else decides the time: the compiler's identity, its flags, the runner.
    """
    printer = printer_of(book, options)
    instances = instances_of(graph, profile, book, wish_of(target, options), NO_TILES)
    constants = frozenset(graph.constants)
    found = {}
    for kernel in profile.kernels:
        instance = instances[kernel.name]
        made = render(
            instance,
            "kernel",
            orders_of(kernel, instance, profile),
            restrict=frozenset(o.name for o in instance.operands),
            constants=frozenset(o.name for o in instance.operands if o.tensor in constants),
            environment=printer,
            registers=None if options.optimize == "size" else target.registers,
        )
        parts = [made.text, *(helper_text(printer, helper) for helper in made.helpers)]
        text = " ".join(re.sub(r"/\*.*?\*/", "", "\n".join(parts), flags=re.DOTALL).split())
        found[kernel.name] = digest({"text": text, "target": target.name, **made_by})
    return found


def missing(profile: Profile, found: Costs) -> tuple[str, ...]:
    """Return the kernels without a measurement, views left out."""
    return tuple(
        k.name for k in profile.kernels if k.alias is None and not found.of[k.name].is_measured
    )


def about(kernel: Kernel, graph: Graph) -> str:
    """Say in a line what a kernel is: its rule, and types and shapes of what it reads and writes.

    Names of the model's own are left out, since other models may have the same kernel.
    """
    reads, writes = (
        ", ".join(
            f"{graph.tensor[t].dtype}{list(graph.tensor[t].shape)}".replace(" ", "") for t in names
        )
        for names in (kernel.reads, kernel.writes)
    )
    rule = " ".join(part for part in (kernel.rule, kernel.variant) if part)
    fused = len(kernel.ops) - 1
    return f"{rule}{f' and {fused} more' if fused else ''}: {reads} -> {writes}"
