"""When each activation is needed: from the step that writes it to the last that reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options
from dlbuild.stages.problem import Step


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The steps [first_step, last_step); never empty."""

    first_step: Step
    last_step: Step


def lifetimes(
    graph: Graph,
    profile: Profile,
    kernels: Sequence[str],
    together: Sequence[tuple[int, int]] | None = None,
) -> Mapping[str, Lifetime]:
    """Return the lifetime of each graph input and each tensor that a kernel writes.

    Inputs live from step 0, outputs to the end.

    Args:
        graph: the model.
        profile: its kernels.
        kernels: the kernel of each step; one with several tiles occurs several times.
        together: for each step the steps [first, last) that run at the same time; else it alone.
    """
    spans = together or [(step, step + 1) for step in range(len(kernels))]
    first = dict.fromkeys(graph.inputs, 0)
    last = dict.fromkeys(graph.inputs, 1)
    for step, name in enumerate(kernels):
        kernel = profile.kernel[name]
        for tensor in kernel.writes:
            first.setdefault(tensor, spans[step][0])
            last[tensor] = spans[step][1]
        for tensor in kernel.reads:
            if tensor in first:
                last[tensor] = spans[step][1]
    for tensor in graph.outputs:
        last[tensor] = max(len(kernels), 1)
    return {t: Lifetime(Step(first[t]), Step(last[t])) for t in first}


def kept_until_taken(
    graph: Graph, profile: Profile, options: Options, n_steps: int
) -> Mapping[str, Lifetime]:
    """Return the lifetimes of what a cluster of a pipeline hands on: bytes of their own.

    The next input may then be begun before the cluster behind has taken the last one's.
    """
    if not graph.clusters.is_stream or options.optimize == "ram":
        return {}
    handed = (k.reads for k in profile.kernels if k.anchor in graph.clusters.communication)
    whole = Lifetime(Step(0), Step(max(n_steps, 1)))
    return {tensor: whole for reads in handed for tensor in reads}
