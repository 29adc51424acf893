"""Writes the nodes that stand for one operator of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Tensor
from dlbuild.ir.weights import Array
from dlbuild.stages.parse_file import array_of
from dlbuild.stages.rewrites.draft import Draft, Node

OPSET = 13
DOMAIN = "dlbuild"

Shapes = Sequence[tuple[int, ...]]


class Writer:
    """Adds nodes in place of one."""

    def __init__(self, draft: Draft, node: Node) -> None:
        self.draft = draft
        self.node = node
        self.made: list[Node] = []

    def add(self, kind: str, inputs: list[str], result: str = "", **attributes: int) -> str:
        """Add a node of ONNX's own domain and return the name of its result."""
        name = result or self.draft.fresh(f"{self.node.label}/{kind}")
        label = f"{self.node.label}/{kind}_{len(self.made)}"
        self.made.append(Node(kind, inputs, [name], dict(attributes), label, opset=OPSET))
        return name

    def own(self, kind: str, inputs: list[str], result: str = "", shapes: Shapes = ()) -> str:
        """Add a node of dlbuild's own domain and return the name of its first result.

        Args:
            kind: the operator.
            inputs: what it reads.
            result: the name of the first result; a new one without it.
            shapes: of its results, which are float32; nothing if the rule tells the only one.
        """
        names = [self.draft.fresh(f"{self.node.label}/{kind}") for _ in shapes or [()]]
        names[0] = result or names[0]
        for name, shape in zip(names, shapes, strict=False):
            self.draft.declared[name] = Tensor(name, "float32", shape)
        label = f"{self.node.label}/{kind}_{len(self.made)}"
        self.made.append(Node(kind, inputs, names, {}, label, DOMAIN, 1))
        return names[0]

    def constant(self, what: str, array: Array) -> str:
        """Add a constant."""
        return self.draft.constant(f"{self.node.label}/{what}", array)

    def floats(self, attribute: str) -> Array:
        """Return a list of reals."""
        value = self.node.attributes.get(attribute, ())
        return np.array(value if isinstance(value, tuple) else (), np.float32)

    def real(self, name: str) -> str:
        """Return a tensor as float32."""
        if self.draft.dtype(name) == "float32":
            return name
        return self.add("Cast", [name], to=1)

    def refuse(self, what: str, why: str) -> UserError:
        """Return the error for what is not supported."""
        return UserError(
            what,
            where=f"{self.draft.where}: node '{self.node.label}' ({self.node.kind})",
            why=why,
            fix="export the model without it, and do this step in your own code",
        )

    def tensor(self, attribute: str) -> Array | None:
        """Return an attribute that is a tensor."""
        for given in self.node.special:
            if given.name == attribute and given.type == onnx.AttributeProto.TENSOR:
                return array_of(given.t, self.draft.where)
        return None

    def matrix(self, name: str) -> str:
        """Return a tensor of reals with a row for each sample; a vector is one row."""
        source, shape = self.real(name), self.draft.shape(name)
        if len(shape) > 1:
            return source
        return self.add("Reshape", [source, self.draft.integers("row", [1, *shape])])
