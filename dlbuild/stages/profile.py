"""The profile graph: which kernels compute a model, what each costs, how each tensor lies."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from dlbuild.emit.handwritten import is_one_run
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Alias, Handwriting, Kernel, Layout, Profile, Scratch
from dlbuild.ir.target import Options, Target
from dlbuild.rulebook.cost import cost
from dlbuild.rulebook.derive import Orders, in_place, own_order, used_by, view_of
from dlbuild.rulebook.handwritten import obstacle, with_kernel
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kept import kept
from dlbuild.rulebook.kernels import matched_in, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.carried import behind_readers
from dlbuild.stages.cycles import predicted_cycles
from dlbuild.stages.layout import layouts
from dlbuild.stages.select import Group, select

MOVE_CYCLES = 6
"""Of an element that goes from cluster to cluster: load, store, and the loop."""


def profile(graph: Graph, book: RuleBook, target: Target, options: Options) -> Profile:
    """Match every operator, group them into kernels, choose layouts, count and predict.

    Raises:
        UserError: no rule fits an operator.
    """
    matched = cache(matched_in(graph, book, wish_of(target, options)))
    groups = [
        replace(group, instance=kept(group.instance)) for group in select(graph, matched, options)
    ]
    chosen = layouts(graph, [g.instance for g in groups], options, target.registers.lanes)
    order_of = {entry.tensor: entry.order for entry in chosen}
    # A layer in strips writes rows, for which an arena that is to be small may need it.
    free = frozenset(graph.outputs) if options.optimize != "ram" else frozenset[str]()
    kernels = tuple(
        _kernel(group, number, graph, order_of, target, free)
        for number, group in enumerate(groups, start=1)
    )
    if options.input == "external":
        kernels = _without_handwriting_of(frozenset(graph.inputs), kernels)
    if target.resources[1] > 1:
        kernels = tuple(_divisible(kernel) for kernel in kernels)
    kernels = behind_readers(graph, kernels)
    return Profile(kernels, _touched(chosen, kernels))


def _without_handwriting_of(
    fetched: frozenset[str], kernels: tuple[Kernel, ...]
) -> tuple[Kernel, ...]:
    """Return the kernels; those that read rows as they are fetched may have to be nests."""
    found: list[Kernel] = []
    for kernel in kernels:
        made = kernel
        if fetched & set(kernel.reads):
            if kernel.alias is not None:
                fetched |= set(kernel.writes)
            if kernel.handwriting is not None and not kernel.handwriting.columns:
                reason = "the rows of its input are fetched"
                made = replace(kernel, handwriting=Handwriting(kernel.handwriting.name, reason))
        found.append(made)
    return tuple(found)


def _divisible(kernel: Kernel) -> Kernel:
    """Return a kernel for several cores: there a hand-written one without rows is a nest."""
    handwriting = kernel.handwriting
    if handwriting is None or handwriting.obstacle or handwriting.rows:
        return kernel
    reason = "it cannot be divided over cores"
    return replace(kernel, handwriting=Handwriting(handwriting.name, reason))


def _touched(chosen: tuple[Layout, ...], kernels: tuple[Kernel, ...]) -> tuple[Layout, ...]:
    """Return the layouts of the tensors that are in memory, by name."""
    names = {t for k in kernels for t in (*k.reads, *k.writes, *k.constants)}
    return tuple(sorted((e for e in chosen if e.tensor in names), key=lambda e: e.tensor))


def _kernel(  # noqa: PLR0913, PLR0917 - all that decides what it is
    group: Group,
    number: int,
    graph: Graph,
    order_of: Mapping[str, tuple[int, ...]],
    target: Target,
    free: frozenset[str],
) -> Kernel:
    instance = group.instance
    constants = frozenset(graph.constants)
    used = used_by(instance)
    inputs = [o.tensor for o in used if o.role == "input"]
    reads = tuple(dict.fromkeys(t for t in inputs if t not in constants))
    orders = {
        o.name: order_of.get(o.tensor, own_order(o)) for o in used if o.role in ("input", "output")
    }
    work = cost(instance)
    handwriting = _handwriting(instance, orders, constants, free)
    communication = graph.clusters.communication.get(group.anchor)
    # What only names a part of what the caller gives is no communication in memory.
    is_moved = communication is not None and communication.kind != "scatter"
    written = sum(graph.tensor[name].count for name in group.writes)
    moved_cycles = MOVE_CYCLES * written if is_moved else 0
    return Kernel(
        name=f"{_stem(instance)}{number}",
        anchor=group.anchor,
        prologue=group.prologue,
        epilogue=group.epilogue,
        rule=instance.rule,
        variant=instance.variant,
        reads=reads,
        writes=group.writes,
        constants=tuple(dict.fromkeys(t for t in inputs if t in constants)),
        macs=work.macs,
        flops=work.flops,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
        cycles=predicted_cycles(work, target, handwriting, written) + moved_cycles,
        alias=None if is_moved else _alias(instance, orders, reads),
        handwriting=handwriting,
        in_place=()
        if is_moved
        else tuple(pair for pair in in_place(instance, orders) if pair[0] in reads),
    )


def _handwriting(
    instance: Instance, orders: Orders, constants: frozenset[str], free: frozenset[str]
) -> Handwriting | None:
    """Return whether the rule's hand-written kernel computes an instance, None if it has none."""
    kernel = instance.handwritten
    if kernel is None:
        return None
    found = obstacle(instance, orders, free)
    if not found and not is_one_run(with_kernel(instance), orders, constants):
        found = "what follows does not go point by point through memory"
    scratch = tuple(
        Scratch(o.name, o.dtype, o.shape[0]) for o in kernel.operands if o.role == "scratch"
    )
    scratch = () if found else scratch
    return Handwriting(kernel.name, found, kernel.rows, scratch, kernel.columns, kernel.forms)


def _alias(instance: Instance, orders: Orders, reads: tuple[str, ...]) -> Alias | None:
    view = view_of(instance, orders)
    if view is None:
        return None
    source = instance.operand(view.source).tensor
    return Alias(source, view.offset_bytes) if source in reads else None


_HOW = frozenset({"columns", "exact", "fixed", "value", "whole", "windows"})
"""Words of variants that say how something is computed, not what."""


def _stem(instance: Instance) -> str:
    """Return a short name from what the operator or the variant of its rule is called."""
    words = [w for w in instance.variant.split("_") if w not in _HOW]
    name = "_".join(words) or instance.kind.lower().removeprefix("qlinear")
    name = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return name if name[:1].isalpha() else f"k{name}"
