"""Kernels by name: the instance that a kernel of the profile stands for, and how it is stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import TilePlan, form_of, handwritten_kernel
from dlbuild.rulebook.derive import own_order
from dlbuild.rulebook.fuse import fuse_epilogue, fuse_prologue
from dlbuild.rulebook.handwritten import with_kernel, without_kernel
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kept import kept
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.match import Wish, match
from dlbuild.rulebook.plain import plain


def instances_of(
    graph: Graph, profile: Profile, book: RuleBook, wish: Wish, tiles: TilePlan
) -> Mapping[str, Instance]:
    """Return what each kernel of a profile is printed from, by its name."""
    return {k.name: _printed(instance_of(k, graph, book, wish), k, tiles) for k in profile.kernels}


def _printed(instance: Instance, kernel: Kernel, tiles: TilePlan) -> Instance:
    """Return an instance with its hand-written kernel, or without one."""
    if handwritten_kernel(kernel, tiles) is None:
        return without_kernel(instance)
    return with_kernel(instance, form_of(kernel.name, tiles))


Matched = Callable[[str], Instance]
"""The instance of one operator by its name."""


def wish_of(target: Target, options: Options) -> Wish:
    """Return what decides between the variants of a rule."""
    is_small = options.optimize == "size"
    return Wish(frozenset(target.features), options.requantize, is_small)


def instance_of(kernel: Kernel, graph: Graph, book: RuleBook, wish: Wish) -> Instance:
    """Rebuild a kernel's instance from the names of its operators.

    Raises:
        UserError: the rules no longer match.
        NoFusion: the rules no longer allow what the profile decided.
    """
    ops = {op.name: op for op in graph.ops}
    matched = matched_in(graph, book, wish)
    return kept(fused(kernel.prologue, kernel.anchor, kernel.epilogue, ops, matched))


def matched_in(graph: Graph, book: RuleBook, wish: Wish) -> Matched:
    """Return the function that matches an operator of a graph by its name."""
    ops = {op.name: op for op in graph.ops}
    return lambda name: plain(match(ops[name], graph, book, wish))


def fused(
    prologue: Sequence[str],
    anchor: str,
    epilogue: Sequence[str],
    ops: Mapping[str, Op],
    matched: Matched,
) -> Instance:
    """Make one instance of an anchor and the operators before and after it, each in order.

    The operators after it may read each other and the anchor several times: they become one
    element-wise instance first. The ones before it are put in last, so that they may serve it
    and those after it alike.

    Raises:
        NoFusion: they cannot be one.
    """
    instance = matched(anchor)
    if epilogue:
        *earlier, last = epilogue
        tail = matched(last)
        for name in reversed(earlier):
            tail = fuse_prologue(matched(name), tail, _output(ops[name]))
        tail = replace(tail, kind=", ".join(ops[name].kind for name in epilogue))
        instance = fuse_epilogue(instance, tail, _output(ops[anchor]))
    for name in reversed(prologue):
        instance = fuse_prologue(matched(name), instance, _output(ops[name]))
    return instance


def _output(op: Op) -> str:
    return next(name for name in op.outputs if name)


def orders_of(
    kernel: Kernel, instance: Instance, profile: Profile
) -> Mapping[str, tuple[int, ...]]:
    """Return how each operand of a kernel lies in memory: its axes, slowest first.

    Constants that the build makes lie in the order of their axes.
    """
    known = {*kernel.reads, *kernel.writes, *kernel.constants}
    return {
        o.name: profile.order_of.get(o.tensor, own_order(o))
        if o.role in ("input", "output") and o.tensor in known
        else own_order(o)
        for o in instance.operands
    }
