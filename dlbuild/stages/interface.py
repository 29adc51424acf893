"""The names of a model's C interface: what its inputs, outputs and kernels are called."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.emit.names import Names
from dlbuild.ir.graph import Graph, Quantized, Tensor
from dlbuild.ir.profile import Profile

_TAKEN = """
arena arena_t user step core rows n_rows count fetch fetch_t worker stop run reset begin push hook
api_version structure arena_bytes arena_budget weights_bytes weights_bin macs ok aborted overflow
params_load params_save params_bytes align arena_section weights_section code_section
tables begun check use in_use head_t image_t image_bytes image_align
no_image misaligned truncated foreign damaged stale
base job
"""


_OF_CLUSTERS = "at end stream"


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of the model.

    name: its C identifier, without the model's prefix.
    order: axes from slowest to fastest in the caller's memory; empty = the model's own order.
    """

    tensor: Tensor
    name: str
    is_input: bool
    order: tuple[int, ...] = ()
    quantized: Quantized | None = None

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """Extents in the order of memory."""
        return tuple(self.tensor.shape[axis] for axis in self.order) or self.tensor.shape


@dataclass(frozen=True, slots=True)
class Interface:
    """A model's C names: inputs, then outputs, in the model's order; and a name for each kernel."""

    prefix: str
    ports: tuple[Port, ...]
    kernels: Mapping[str, str]

    @property
    def macro(self) -> str:
        """The prefix of its macros."""
        return self.prefix.upper()

    def port(self, tensor: str) -> Port:
        """Return the port of a tensor; of one that is input and output the output."""
        return {p.tensor.name: p for p in self.ports}[tensor]

    def external_names(self) -> tuple[str, ...]:
        """Return every external name that a port may have."""
        return tuple(f"{self.prefix}_{name}" for name in self.member_names())

    def member_names(self) -> tuple[str, ...]:
        """Return the same without the model's prefix, as members of an image of weights have it."""
        suffixes = ("", "_scale", "_zero_point")
        return tuple(f"{port.name}{suffix}" for port in self.ports for suffix in suffixes)


def interface(graph: Graph, profile: Profile, name: str) -> Interface:
    """Name the ports, then the kernels, so that a new kernel never renames the interface."""
    arenas = [f"arena_{group.cluster}" for group in graph.clusters.groups]
    taken = [*_TAKEN.split(), *arenas, *(_OF_CLUSTERS.split() if arenas else ())]
    taken += [f"{room}_{what}" for room in arenas for what in ("bytes", "section")]
    names = Names((*taken, *(f"{name}_{word}" for word in taken)))
    quantized = {q.tensor: q for q in graph.quantized}
    sides = [(tensor, True) for tensor in graph.inputs]
    sides += [(tensor, False) for tensor in graph.outputs]
    ports = tuple(
        Port(
            tensor=graph.tensor[tensor],
            name=names.give(tensor, "input" if is_input else "output"),
            is_input=is_input,
            order=profile.order_of.get(tensor, ()),
            quantized=quantized.get(tensor),
        )
        for tensor, is_input in sides
    )
    kernels = {k.name: names.give(k.name, "kernel") for k in profile.kernels}
    return Interface(name, ports, kernels)
