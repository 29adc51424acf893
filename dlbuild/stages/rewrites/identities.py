"""Operators that give back their operand: dropped, except where a copy is due."""

from dataclasses import replace

import numpy as np

from dlbuild.stages.rewrites.draft import Draft, Node

NAMES = "Identity"


def name_outputs(draft: Draft) -> None:
    """Let every output be written by a node of its own.

    An output that is an input, a constant, or listed twice is copied by an Identity. Only such an
    Identity stays: its operand is an input, a constant or another output.
    """
    seen: set[str] = set()
    written = draft.producers()
    for position, name in enumerate(draft.outputs):
        if name in written and name not in seen:
            seen.add(name)
            continue
        if name in draft.constants and name not in seen:
            # The caller knows the output by this name, so the constant gets another.
            source = draft.fresh(f"{name}_constant")
            draft.rename(name, source)
            draft.rename_uses(name, source)
            output = name
        else:
            source = name
            output = draft.tensor(f"{name}_output", draft.dtype(name), draft.shape(name))
            if name in draft.counts:
                draft.counts[output] = replace(draft.counts[name], tensor=output)
        draft.nodes.append(Node(NAMES, [source], [output], name=output, opset=13))
        draft.outputs[position] = output
        written = draft.producers()
        seen.add(output)


def drop_identities(draft: Draft) -> None:
    """Drop operators that change nothing; names of the model's outputs are kept."""
    kept: list[Node] = []
    alias: dict[str, str] = {}
    producers = draft.producers()
    for node in draft.nodes:
        node.inputs = [resolve(alias, name) for name in node.inputs]
        if not is_identity(draft, node):
            kept.append(node)
            continue
        source, result = node.inputs[0], node.outputs[0]
        is_renamed = source in producers and source not in draft.outputs
        if result not in draft.outputs and not (is_renamed and source in draft.made):
            alias[result] = source
        elif is_renamed:
            # The producer writes the output itself; who read the operand reads the output.
            producer = producers[source]
            producer.outputs = [result if name == source else name for name in producer.outputs]
            producers[result] = producer
            alias[source] = result
            for other in kept:
                other.inputs = [result if name == source else name for name in other.inputs]
        else:
            kept.append(node)
    draft.nodes = kept
    draft.sort()


def resolve(alias: dict[str, str], name: str) -> str:
    """Follow renamings to the name that holds now."""
    while name in alias:
        name = alias[name]
    return name


def is_identity(draft: Draft, node: Node) -> bool:
    """Say whether a node gives back its first operand, bit by bit."""
    if node.domain or not node.inputs or not node.outputs[0]:
        return False
    if node.kind == "Identity":
        return True
    same_type = draft.dtype(node.inputs[0]) == draft.dtype(node.outputs[0])
    if node.kind in {"Cast", "CastLike"}:
        return same_type
    same_shape = draft.shape(node.inputs[0]) == draft.shape(node.outputs[0])
    if node.kind in {"Reshape", "Flatten", "Expand", "Squeeze", "Unsqueeze", "Slice"}:
        return same_shape and (node.kind != "Slice" or is_forward(draft, node))
    if node.kind in {"Concat", "Sum", "Max", "Min", "Mean"}:
        return len(node.inputs) == 1
    if node.kind == "Transpose":
        shape = draft.shape(node.inputs[0])
        default = tuple(range(len(shape)))[::-1]
        return node.integers("perm", default) == tuple(range(len(shape)))
    return False


def is_forward(draft: Draft, node: Node) -> bool:
    """Say whether a Slice of the whole extent keeps the order."""
    steps = node.input(4)
    if not steps:
        return True
    return steps in draft.constants and bool((draft.constants[steps].astype(np.int64) > 0).all())
