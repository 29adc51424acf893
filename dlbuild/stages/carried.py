"""State: kernels that overwrite it come behind those that read it."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile


def behind_readers(graph: Graph, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Return the kernels in an order in which each state is written when nobody reads it any more.

    Raises:
        UserError: two states are to take each other's place.
    """
    if not graph.states:
        return kernels
    readers = _readers(kernels)
    state_of = {state.output: state.input for state in graph.states}
    found = []
    for kernel in kernels:
        before = [
            reader
            for name in kernel.writes
            if name in state_of
            for reader in readers.get(state_of[name], ())
            if reader != kernel.name
        ]
        found.append(replace(kernel, after=tuple(dict.fromkeys(before))))
    return tuple(_sorted(graph, found))


def _readers(kernels: Sequence[Kernel]) -> Mapping[str, list[str]]:
    """Return the kernels that read each tensor or a view of it."""
    root: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for kernel in kernels:
        for name in kernel.reads:
            found.setdefault(root.get(name, name), []).append(kernel.name)
        if kernel.alias is not None:
            source = root.get(kernel.alias.source, kernel.alias.source)
            root.update(dict.fromkeys(kernel.writes, source))
    return found


def _sorted(graph: Graph, kernels: Sequence[Kernel]) -> Iterator[Kernel]:
    """Yield the kernels, each as early as it was but behind all that it needs."""
    writer = {name: kernel.name for kernel in kernels for name in kernel.writes}
    place = {kernel.name: number for number, kernel in enumerate(kernels)}
    users: dict[str, list[str]] = {}
    left: dict[str, int] = {}
    for kernel in kernels:
        needs = {*kernel.after, *(writer[name] for name in kernel.reads if name in writer)}
        left[kernel.name] = len(needs)
        for name in needs:
            users.setdefault(name, []).append(kernel.name)
    ready = [place[name] for name, count in left.items() if not count]
    heapq.heapify(ready)
    while ready:
        kernel = kernels[heapq.heappop(ready)]
        yield kernel
        del left[kernel.name]
        for name in users.get(kernel.name, ()):
            left[name] -= 1
            if not left[name]:
                heapq.heappush(ready, place[name])
    if left:
        names = [s.output for s in graph.states if writer.get(s.output) in left]
        raise UserError(
            f"the states {', '.join(repr(name) for name in names)} take each other's place",
            where=graph.name,
            why="each would have to be written before it is read for the last time",
            fix="let one of them be computed from the other by an operator, not copied",
        )


def carried_names(graph: Graph, profile: Profile) -> tuple[str, ...]:
    """Return the states as they are read, and their views."""
    found = {state.input: None for state in graph.states}
    for kernel in profile.kernels:
        if kernel.alias is not None and kernel.alias.source in found:
            found |= dict.fromkeys(kernel.writes)
    return tuple(found)


def after_tensors(profile: Profile, kernel: Kernel) -> tuple[str, ...]:
    """Return a tensor that each of the kernels writes which run before a kernel."""
    return tuple(profile.kernel[name].writes[0] for name in kernel.after)
