"""Which activations are there as a whole while consecutive kernels of a profile run together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options
from dlbuild.stages.peak import arena_bytes


def names_of_fetched(graph: Graph, profile: Profile, options: Options) -> frozenset[str]:
    """Return the input whose rows are brought when they are needed, under all its names."""
    if options.input != "external":
        return frozenset()
    found = set(graph.inputs)
    for kernel in profile.kernels:
        if kernel.alias is not None and kernel.alias.source in found:
            found.update(kernel.writes)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Life:
    """A tensor and its views: written by kernel `born` (-1: an input), last read by `dies`."""

    size_bytes: int
    born: int
    dies: int


@dataclass(frozen=True)
class Lives:
    """The activations of a profile, its kernels in order."""

    graph: Graph
    profile: Profile
    options: Options

    @cached_property
    def root(self) -> Mapping[str, str]:
        """For each activation the tensor whose bytes it is."""
        found = {name: name for name in self.graph.inputs}
        for kernel in self.profile.kernels:
            for name in kernel.writes:
                found[name] = found[kernel.alias.source] if kernel.alias else name
        return found

    @cached_property
    def lives(self) -> Mapping[str, Life]:
        """The life of each tensor that is no view."""
        found: dict[str, Life] = {}
        for name in self.graph.inputs:
            found[name] = Life(self.bytes_of(name), -1, 0)
        for number, kernel in enumerate(self.profile.kernels):
            for name in kernel.writes:
                if self.root[name] == name:
                    found[name] = Life(self.bytes_of(name), number, number)
            for name in kernel.reads:
                if name in self.root:
                    root = self.root[name]
                    found[root] = replace(found[root], dies=number)
        for name in (*self.graph.outputs, *(state.input for state in self.graph.states)):
            if name in self.root:
                root = self.root[name]
                found[root] = replace(found[root], dies=len(self.profile.kernels))
        return found

    @property
    def streamed(self) -> str:
        """The input that comes in rows, or the empty name."""
        return self.graph.inputs[0] if self.options.input == "streamed" else ""

    def kept_bytes(self, first: int, last: int) -> int:
        """Return the bytes of all that is there as a whole during these kernels."""
        return sum(
            life.size_bytes
            for life in self.lives.values()
            if (life.born < first <= life.dies) or (first <= life.born <= last < life.dies)
        ) + sum(
            life.size_bytes
            for life in self.lives.values()
            if first <= life.born == life.dies <= last  # nobody reads it
        )

    def inner(self, first: int, last: int) -> list[str]:
        """Return what is made and read here alone."""
        return [name for name, life in self.lives.items() if first <= life.born < life.dies <= last]

    def written(self, first: int, last: int) -> list[str]:
        """Return what is made here and needed afterwards."""
        return [name for name, life in self.lives.items() if first <= life.born <= last < life.dies]

    def kept(self, tensor: str) -> int:
        """Return the bytes of what a tensor lies in."""
        return self.lives[self.root[tensor]].size_bytes

    def bytes_of(self, tensor: str) -> int:
        """Return the bytes of a tensor in the arena; of a streamed input, all of it."""
        is_streamed = tensor == self.streamed
        return self.whole(tensor) if is_streamed else arena_bytes(tensor, self.graph, self.options)

    def whole(self, tensor: str) -> int:
        """Return the bytes of all of a tensor."""
        return self.graph.tensor[tensor].size_bytes
