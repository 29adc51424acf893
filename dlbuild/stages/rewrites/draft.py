"""The graph while parse works on it: what the file says, changed pass by pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from dlbuild.base.errors import UserError
from dlbuild.base.free import free_name
from dlbuild.ir.derivation import Setting
from dlbuild.ir.graph import Attribute, Count, Fact, Group, Quantized, State, Tensor
from dlbuild.ir.weights import Array, dtype_name
from dlbuild.stages.rewrites.numbers import Numbers

RECURRENT = ("LSTM", "GRU", "RNN")
VARIADIC = frozenset(
    ("Split", "If", "Loop", "Scan", "Unique", *RECURRENT, "Determinant", "CoupledProbabilities")
)
"""Operators whose results each have their place, whether they are read or not."""


@dataclass(eq=False, slots=True)
class Node:
    """An operator under work. `special` are attributes that hold tensors or graphs."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    name: str = ""
    domain: str = ""
    opset: int = 0
    special: tuple[onnx.AttributeProto, ...] = ()

    def input(self, position: int) -> str:
        """Return an input's name, empty if it is absent."""
        return self.inputs[position] if position < len(self.inputs) else ""

    @property
    def label(self) -> str:
        """What to call the node in a message."""
        return self.name or next((name for name in self.outputs if name), self.kind)

    def integer(self, attribute: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attributes.get(attribute, default)
        return value if isinstance(value, int) else default

    def number(self, attribute: str, default: float) -> float:
        """Return a float attribute."""
        value = self.attributes.get(attribute, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, attribute: str, default: str) -> str:
        """Return a text attribute."""
        value = self.attributes.get(attribute, default)
        return value if isinstance(value, str) else default

    def integers(self, attribute: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Return a list of integers."""
        value = self.attributes.get(attribute, tuple(default))
        return tuple(int(v) for v in value) if isinstance(value, tuple) else tuple(default)


@dataclass(eq=False)
class Draft:
    """Nodes, tensors and constants; passes change it in place.

    A pass that needs to know a constant's type or extents asks `tensors`, since whoever reads the
    constant itself makes its numbers part of the structure (`Numbers`).

    where: the model file, for messages. declared: tensors whose type the file states.
    sequences, optionals: what names stand for that are no tensors: members; what is held, or "".
    taken: names in use. made: names that a pass gave to integers that the file has as reals only.
    carried: the input that each output is carried to between runs. initial: what such inputs have
    at first.
    """

    where: str
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: Numbers = field(default_factory=Numbers)
    declared: dict[str, Tensor] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    facts: dict[Fact, None] = field(default_factory=dict)
    quantized: list[Quantized] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sequences: dict[str, tuple[str, ...]] = field(default_factory=dict)
    optionals: dict[str, str] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    counts: dict[str, Count] = field(default_factory=dict)
    carried: dict[str, str] = field(default_factory=dict)
    initial: dict[str, Array] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, or the first of `wanted_2`, `wanted_3`... that no tensor has."""
        name = free_name(wanted, self.taken, "_")
        self.taken.add(name)
        return name

    def constant(self, wanted: str, array: Array) -> str:
        """Add a constant and return the name it got."""
        name = self.fresh(wanted)
        self.keep(name, array)
        return name

    def keep(self, name: str, array: Array) -> None:
        """Store a constant under a name that is already its own."""
        self.constants[name] = array
        self._note(name, array)

    def load(self, name: str, array: Array) -> None:
        """Store an initializer of the file."""
        self.constants.load(name, array)
        self._note(name, array)

    def derive(self, name: str, function: str, arrays: tuple[str, ...], **settings: Setting) -> str:
        """Store what a function makes of constants under a name that is already its own."""
        self._note(name, self.constants.derive(name, function, arrays, **settings))
        return name

    def rename(self, old: str, new: str) -> None:
        """Give a constant another name, which is its own."""
        self.constants.rename(old, new)
        tensor = self.tensors[old]
        self.taken.add(new)
        self.tensors[new] = Tensor(new, tensor.dtype, tensor.shape)

    def _note(self, name: str, array: Array) -> None:
        self.taken.add(name)
        self.tensors[name] = Tensor(name, dtype_name(array), tuple(array.shape))

    def integers(self, wanted: str, values: Iterable[int]) -> str:
        """Add a list of integers as a constant."""
        return self.constant(wanted, np.array(list(values), dtype=np.int64))

    def tensor(self, wanted: str, dtype: str, shape: Sequence[int]) -> str:
        """Add a tensor and return the name it got."""
        name = self.fresh(wanted)
        self.tensors[name] = Tensor(name, dtype, tuple(shape))
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a tensor's extents."""
        return self.tensors[name].shape

    def dtype(self, name: str) -> str:
        """Return a tensor's element type."""
        return self.tensors[name].dtype

    def producers(self) -> dict[str, Node]:
        """Return the node that writes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def consumers(self) -> dict[str, list[Node]]:
        """Return the nodes that read each tensor."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    found.setdefault(name, []).append(node)
        return found

    def rename_uses(self, old: str, new: str) -> None:
        """Let every reader of `old` read `new`."""
        for node in self.nodes:
            node.inputs = [new if name == old else name for name in node.inputs]

    def sort(self) -> None:
        """Put producers before their readers, keeping the order where it is already so."""
        producer = self.producers()
        done: set[int] = set()
        order: list[Node] = []
        for root in self.nodes:
            stack: list[tuple[Node, int]] = [(root, 0)]
            open_nodes: set[int] = set()
            while stack:
                node, position = stack.pop()
                if id(node) in done:
                    continue
                open_nodes.add(id(node))
                reads = [*node.inputs, *captured(node)]
                while position < len(reads):
                    before = producer.get(reads[position])
                    position += 1
                    if before is None or id(before) in done:
                        continue
                    if id(before) in open_nodes:
                        raise self.cycle(before)
                    stack.append((node, position))
                    stack.append((before, 0))
                    break
                else:
                    done.add(id(node))
                    open_nodes.discard(id(node))
                    order.append(node)
        self.nodes = order

    def cycle(self, node: Node) -> UserError:
        """Return the error for a node that needs its own result."""
        return UserError(
            "this node reads a tensor that is computed from its own output",
            where=f"{self.where}: node '{node.label}' ({node.kind})",
            why="an ONNX graph has no cycles; state goes through inputs and outputs",
            fix="export the model again",
        )

    def drop_dead(self) -> None:
        """Drop nodes that no output needs, and constants that no node reads."""
        needed = set(self.outputs)
        alive: list[Node] = []
        for node in reversed(self.nodes):
            if any(name in needed for name in node.outputs):
                if node.kind not in VARIADIC:
                    drop_results(node, needed)
                needed.update(node.inputs)
                needed.update(captured(node))
                alive.append(node)
        self.nodes = alive[::-1]
        for pair in self.quantized:
            needed.update((pair.scale, pair.zero_point))
        self.constants.keep_only(needed)

    def is_plain(self, name: str) -> bool:
        """Say whether a tensor is neither an input nor an output of the model."""
        return name not in self.inputs and name not in self.outputs

    def is_row(self, name: str, count: int) -> bool:
        """Say whether a tensor has one number in all, or one for each place of a last axis.

        count: the extent of that axis. As many along another axis are no row, but a column.
        """
        tensor = self.tensors[name]
        return tensor.count == 1 or (tensor.count == count and tensor.shape[-1] == count)


def drop_results(node: Node, needed: set[str]) -> None:
    """Leave out optional results that nothing reads."""
    node.outputs = [
        name if name in needed or position == 0 else ""
        for position, name in enumerate(node.outputs)
    ]
    while len(node.outputs) > 1 and not node.outputs[-1]:
        node.outputs.pop()


def captured(node: Node) -> list[str]:
    """Return the outer tensors that a node's subgraphs read."""
    found: dict[str, None] = {}
    for attribute in node.special:
        for graph in (attribute.g, *attribute.graphs):
            inner = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            inner |= {name for n in graph.node for name in n.output}
            for n in graph.node:
                reads = list(n.input)
                nested = tuple(a for a in n.attribute if is_special(a))
                if nested:
                    reads += captured(Node(n.op_type, [], [], special=nested))
                found.update((name, None) for name in reads if name and name not in inner)
            found.update((v.name, None) for v in graph.output if v.name not in inner)
    return list(found)


def is_special(attribute: onnx.AttributeProto) -> bool:
    """Say whether an attribute holds what `ir.graph.Attribute` cannot: tensors, graphs, types."""
    kinds = onnx.AttributeProto
    plain = (kinds.INT, kinds.FLOAT, kinds.STRING, kinds.INTS, kinds.FLOATS, kinds.STRINGS)
    return attribute.type not in plain


def check_known(
    draft: Draft, node: Node, attribute: str, given: Sequence[str], known: Sequence[str]
) -> None:
    """Refuse texts of an attribute that are not known.

    Raises:
        UserError: names the node, the attribute and the first such text.
    """
    for text in given:
        if text not in known:
            raise UserError(
                f"{attribute} is '{text}', it can be {', '.join(known)}",
                where=f"{draft.where}: node '{node.label}' ({node.kind})",
                fix="export the model with one of them",
            )
