"""Which functions of a model's C were made one, and what flash that saves."""

from dataclasses import dataclass

from dlbuild.ir import codec


@dataclass(frozen=True, slots=True)
class Group:
    """Functions that differ in numbers alone.

    functions: their C names, the first of which a merged one has. layers: the nodes that call
    them. kernels: those of the layers. numbers: what their calls would differ in. apart_bytes: of
    the object of the model's code if each is a function of its own; together_bytes: if they are
    one, 0 if there is no such function. obstacle: why there is none. is_merged: whether they are
    one.
    """

    functions: tuple[str, ...]
    layers: tuple[str, ...]
    kernels: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    apart_bytes: int = 0
    together_bytes: int = 0
    obstacle: str = ""
    is_merged: bool = False


@dataclass(frozen=True, slots=True)
class MergedFunctions:
    """All groups of a model's C, in the order in which they were decided."""

    groups: tuple[Group, ...] = ()

    @property
    def merged(self) -> tuple[tuple[str, ...], ...]:
        """The names of the functions of each group that is one."""
        return tuple(group.functions for group in self.groups if group.is_merged)


NOT_MERGED = MergedFunctions()
"""Of a build that counts no flash: every function is for its own sizes."""


def merged_from(content: bytes) -> MergedFunctions:
    """Return what a build's file says, which has nothing in it where no flash was counted."""
    return codec.decode(content, MergedFunctions) if content else NOT_MERGED
