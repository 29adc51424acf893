"""The model's structure as an ONNX file, each node with what its kernel costs; opens in Netron.

Weights are referred to, not repeated: an initializer's numbers are said to be in the weights file.
"""

from collections.abc import Collection, Mapping, Sequence

import onnx
from onnx import helper, numpy_helper

from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.weights import Array
from dlbuild.stages.parse_graph import attribute_of
from dlbuild.stages.parse_shapes import ONNX_OF

IR_VERSION = 10
OLDEST_OPSET = 13
PRODUCER = "dlbuild"


def annotate(
    graph: Graph, profile: Profile, costs: Costs, schedule: Schedule, *, weights_file: str
) -> bytes:
    """Return the annotated model.

    Args:
        graph: the structure.
        profile: the kernels and their work.
        costs: what each of them costs.
        schedule: the steps in which they run.
        weights_file: name of the file with the numbers, beside the annotated model.
    """
    model = to_onnx(graph, weights_file=weights_file)
    for key, value in totals_of(profile, costs):
        model.metadata_props.add(key=key, value=value)
    notes = notes_of(profile, costs, schedule)
    clusters = graph.clusters.cluster_of
    for node, op in zip(model.graph.node, graph.ops, strict=True):
        for key, value in notes.get(op.name, ()):
            node.metadata_props.add(key=key, value=value)
        if op.name in clusters:
            node.metadata_props.add(key="cluster", value=clusters[op.name])
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def clusters_file(graph: Graph, weights: Mapping[str, Array]) -> bytes:
    """Return a graph that is spread over clusters as a model that any runtime can run.

    Each node says in its metadata which cluster computes it; one that communicates says how, and
    from which clusters. A state is an input and an output for each cluster that has a copy, whose
    default is what it has at first; the metadata of the model say what is carried where.
    """
    clusters = graph.clusters
    model = to_onnx(graph, weights)
    _add_states(model, graph, weights)
    model.metadata_props.add(key="parallel", value=clusters.parallel)
    model.metadata_props.add(key="clusters", value=" ".join(g.cluster for g in clusters.groups))
    for node, op in zip(model.graph.node, graph.ops, strict=True):
        node.metadata_props.add(key="cluster", value=clusters.cluster_of[op.name])
        found = clusters.communication.get(op.name)
        if found is not None:
            sources = " ".join(source or "caller" for source in found.sources)
            node.metadata_props.add(key="communication", value=found.kind)
            node.metadata_props.add(key="from", value=sources)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _add_states(model: onnx.ModelProto, graph: Graph, weights: Mapping[str, Array]) -> None:
    """Say what is carried, and give each copy what it has at first."""
    for state in graph.states:
        model.metadata_props.add(key=f"state {state.output}", value=state.input)
        if state.replica_of:
            model.metadata_props.add(key=f"copy {state.input}", value=state.replica_of)
        if state.initial:
            first = numpy_helper.from_array(weights[state.initial], state.input)
            model.graph.initializer.append(first)


def totals_of(profile: Profile, costs: Costs) -> tuple[tuple[str, str], ...]:
    """Return what is written beside the model: what its nodes add up to."""
    return (
        ("macs", str(sum(kernel.macs for kernel in profile.kernels))),
        ("flops", str(sum(kernel.flops for kernel in profile.kernels))),
        ("time", str(costs.total)),
        ("time_unit", costs.unit),
    )


def notes_of(
    profile: Profile, costs: Costs, schedule: Schedule
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return for each operator what is written beside it, in a fixed order.

    A kernel's costs stand at its anchor; the operators fused into it name the kernel alone.
    """
    steps: dict[str, list[int]] = {}
    for step in schedule.steps:
        steps.setdefault(step.kernel, []).append(step.number)
    times = [costs.of[kernel.name].cost for kernel in profile.kernels]
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for kernel, time, share in zip(profile.kernels, times, shares(times), strict=True):
        for op in kernel.ops:
            found[op] = (("kernel", kernel.name),)
        found[kernel.anchor] += (
            ("rule", f"{kernel.rule} {kernel.variant}".strip()),
            ("step", " ".join(str(number) for number in steps.get(kernel.name, []))),
            ("share", f"{share // 100}.{share % 100:02} %"),
            ("time", str(time)),
            ("time_from", "measurement" if costs.of[kernel.name].is_measured else "prediction"),
            *work(kernel),
        )
    return found


def work(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """Return a kernel's work as text."""
    return (
        ("cycles", str(kernel.cycles)),
        ("macs", str(kernel.macs)),
        ("flops", str(kernel.flops)),
        ("bytes", str(kernel.bytes_read + kernel.bytes_written)),
        ("bytes_read", str(kernel.bytes_read)),
        ("bytes_written", str(kernel.bytes_written)),
    )


WHOLE = 10_000
"""All of a sum, in hundredths of a percent."""


def shares(times: Sequence[int]) -> list[int]:
    """Return the share of each in hundredths of a percent, which add up to all of it.

    What rounding down leaves goes to the greatest remainders.
    """
    total = sum(times)
    if total == 0:
        return [0] * len(times)
    found = [WHOLE * time // total for time in times]
    rest = [WHOLE * time % total for time in times]
    order = sorted(range(len(times)), key=lambda n: (-rest[n], n))
    for number in order[: WHOLE - sum(found)]:
        found[number] += 1
    return found


def to_onnx(
    graph: Graph, weights: Mapping[str, Array] | None = None, *, weights_file: str = ""
) -> onnx.ModelProto:
    """Return a graph as an ONNX model.

    Args:
        graph: the structure.
        weights: the numbers of its constants; without them they are referred to.
        weights_file: where constants without numbers are said to be.
    """
    values = {v.tensor: v for v in graph.value.values()}
    # ONNX's tensors know their extents when they are there, so its operators give no count.
    counts = frozenset(c.count for c in graph.counts)
    initializers: list[onnx.TensorProto] = []
    for name in graph.constants:
        tensor = graph.tensor[name]
        if weights is not None:
            initializers.append(numpy_helper.from_array(weights[name], name))
        elif name in values:
            content = list(values[name].content)
            initializers.append(
                helper.make_tensor(name, ONNX_OF[tensor.dtype], tensor.shape, content)
            )
        else:
            initializers.append(referred(tensor, weights_file))
    proto = helper.make_graph(
        [node_of(op, counts) for op in graph.ops],
        graph.name,
        [info(graph.tensor[name]) for name in graph.inputs],
        [info(graph.tensor[name]) for name in graph.outputs if name not in counts],
        initializers,
        value_info=[
            info(tensor)
            for tensor in graph.tensors
            if tensor.name in graph.producer and tensor.name not in {*graph.outputs, *counts}
        ],
    )
    model = helper.make_model(proto, producer_name=PRODUCER, opset_imports=opsets_of(graph))
    model.ir_version = IR_VERSION
    return model


def opsets_of(graph: Graph) -> list[onnx.OperatorSetIdProto]:
    """Return one operator set for each domain: the newest that a node has the form of."""
    newest: dict[str, int] = {"": OLDEST_OPSET}
    for op in graph.ops:
        newest[op.domain] = max(newest.get(op.domain, 1), op.opset)
    return [helper.make_opsetid(domain, newest[domain]) for domain in sorted(newest)]


def node_of(op: Op, counts: Collection[str] = ()) -> onnx.NodeProto:
    """Return an operator as an ONNX node, without the results that are counts."""
    outputs = ["" if name in counts else name for name in op.outputs]
    while outputs and not outputs[-1]:
        outputs.pop()
    node = helper.make_node(op.kind, op.inputs, outputs, op.name, domain=op.domain)
    node.attribute.extend(attribute_of(name, value) for name, value in op.attributes)
    return node


def info(tensor: Tensor) -> onnx.ValueInfoProto:
    """Return a tensor's type."""
    return helper.make_tensor_value_info(tensor.name, ONNX_OF[tensor.dtype], tensor.shape)


def referred(tensor: Tensor, weights_file: str) -> onnx.TensorProto:
    """Return a constant whose numbers are elsewhere."""
    proto = onnx.TensorProto(
        name=tensor.name,
        data_type=ONNX_OF[tensor.dtype],
        dims=tensor.shape,
        data_location=onnx.TensorProto.EXTERNAL,
    )
    proto.external_data.add(key="location", value=weights_file)
    return proto
