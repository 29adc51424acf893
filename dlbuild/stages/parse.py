"""The first stage: an ONNX file becomes a graph, and the numbers of its constants.

The graph is the structure. It depends on the numbers only through what `Graph.values` and
`Graph.facts` repeat, so a model with other weights gives the same graph.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from dlbuild.base.errors import UserError
from dlbuild.base.free import free_name
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.parse_file import inputs_of, is_external, load_external, read_model, tensors_of
from dlbuild.stages.parse_graph import draft_of
from dlbuild.stages.rewrites.batchnorm import fold_batch_normalization
from dlbuild.stages.rewrites.carry import carry
from dlbuild.stages.rewrites.contents import check_contents, leave_out_empty
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.fold import facts_of, values_of
from dlbuild.stages.rewrites.gemm import join_bias
from dlbuild.stages.rewrites.grid import scalar_parameters
from dlbuild.stages.rewrites.identities import drop_identities, name_outputs
from dlbuild.stages.rewrites.infer import infer
from dlbuild.stages.rewrites.interface import note_interface
from dlbuild.stages.rewrites.numbers import Numbers
from dlbuild.stages.rewrites.pads import merge_pads
from dlbuild.stages.rewrites.qdq_fuse import fuse
from dlbuild.stages.rewrites.qdq_move import move_to_integers
from dlbuild.stages.rewrites.splits import slice_splits

__all__ = ["Parsed", "inputs_of", "parse"]

INTEGER_WEIGHTS = frozenset({"DequantizeLinear"})
"""Not folded before the fusion to integers has seen them."""


@dataclass(frozen=True)
class Parsed:
    """A model in two parts: structure, and the numbers of its constants.

    numbers: the same numbers, and what they were made from; None if it is not the file alone.
    """

    graph: Graph
    weights: Mapping[str, Array]
    numbers: Numbers | None = None


def parse(
    source: Path,
    shapes: Mapping[str, tuple[int, ...]],
    book: RuleBook,
    name: str,
    state: Mapping[str, str] | None = None,
) -> Parsed:
    """Read a model.

    Args:
        source: the ONNX file; external data lies in its folder.
        shapes: extents of inputs, as the recipe binds them.
        book: rules; they say which operators exist and which inputs are structure.
        name: the model's name in the recipe.
        state: the input that each output is carried to between runs.

    Raises:
        UserError: the file, a name, a shape or an operator is at fault.
    """
    model = read_model(source)
    is_whole = not any(map(is_external, tensors_of(model)))
    load_external(model, source)
    draft = draft_of(model, source, shapes, book, state)
    rewrite(draft, book)
    parsed = finish(draft, book, name)
    return parsed if is_whole else replace(parsed, numbers=None)


def rewrite(draft: Draft, book: RuleBook) -> None:
    """Apply the passes in their order."""
    infer(draft, book, keep=INTEGER_WEIGHTS)
    leave_out_empty(draft)
    name_outputs(draft)
    draft.drop_dead()
    slice_splits(draft)
    drop_identities(draft)
    fold_batch_normalization(draft)
    join_bias(draft)
    merge_pads(draft)
    scalar_parameters(draft)
    note_interface(draft)
    move_to_integers(draft)
    drop_identities(draft)
    draft.drop_dead()
    fuse(draft, book)
    infer(draft, book, keep=frozenset())
    name_outputs(draft)
    fold_batch_normalization(draft)
    merge_pads(draft)
    drop_identities(draft)
    draft.drop_dead()
    check_contents(draft)
    carry(draft)


def finish(draft: Draft, book: RuleBook, name: str) -> Parsed:
    """Make the graph of a draft whose passes are done."""
    ops = tuple(op_of(draft, node, label) for node, label in named(draft))
    constants = sorted(draft.constants)
    used = dict.fromkeys([*draft.inputs, *draft.outputs])
    for op in ops:
        used |= dict.fromkeys(filter(None, (*op.inputs, *op.outputs)))
    used |= dict.fromkeys(constants)
    graph = Graph(
        name,
        tuple(draft.inputs),
        tuple(draft.outputs),
        tuple(draft.tensors[tensor] for tensor in used),
        ops,
        tuple(constants),
        values_of(draft, ops, book),
        facts_of(draft, ops, book),
        tuple(draft.quantized),
        tuple(draft.notes),
        tuple(draft.groups),
        tuple(draft.counts[name] for name in used if name in draft.counts),
        states=tuple(draft.states),
    )
    arrays = draft.constants.without_note()
    return Parsed(graph, {tensor: arrays[tensor] for tensor in constants}, draft.constants)


def named(draft: Draft) -> list[tuple[Node, str]]:
    """Give each node a name of its own: the model's, else its first output."""
    taken: set[str] = set()
    found: list[tuple[Node, str]] = []
    for node in draft.nodes:
        label = free_name(node.label, taken, "_")
        taken.add(label)
        found.append((node, label))
    return found


def op_of(draft: Draft, node: Node, label: str) -> Op:
    """Return a node as the graph holds it.

    Raises:
        UserError: it has an attribute that is a graph or a tensor.
    """
    if node.special:
        attribute = node.special[0]
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type).lower()
        raise UserError(
            f"the attribute '{attribute.name}' is a {kind}, which is not supported",
            where=f"{draft.where}: node '{node.label}' ({node.kind})",
            why="control flow and tensors inside attributes cannot be laid out at build time here",
            fix="export the model without this operator (unroll loops, fix conditions)",
        )
    return Op(
        label,
        node.kind,
        tuple(node.inputs),
        tuple(node.outputs),
        tuple((key, node.attributes[key]) for key in sorted(node.attributes)),
        node.domain,
        node.opset,
    )
