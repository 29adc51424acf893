"""What a model computes, from someone else than the generated C.

ONNX Runtime if it is installed and takes the model, else onnx's own evaluator, else nobody. What
they cannot say (all of a model with a custom operator, or a tensor that only dlbuild's graph has)
is computed with numpy from the rules' steps, or, of an operator without steps, by one of the two
that runs it alone. Where the evaluator speaks, the rules' steps are checked against it, operator by
operator, each given the evaluator's inputs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.weights import Array
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.match import Wish, match
from dlbuild.run.counted import filled
from dlbuild.run.reference_groups import interface_values, member_values, whole_names
from dlbuild.run.reference_oracles import ask_alone, ask_evaluator, ask_runtime
from dlbuild.run.samples import Sample
from dlbuild.run.verify_compare import Limit, Tolerance, compare, limit_for
from dlbuild.stages.annotate import to_onnx

if TYPE_CHECKING:
    import onnx

Values = Mapping[str, Array]


@dataclass(frozen=True)
class Reference:
    """Who answered, and for each sample the tensors that were wanted, in the model's order.

    A tensor is missing from all runs if its operator has no steps and nobody else runs it.
    notes: sentences for the user about who did not answer, and what was checked.
    """

    source: str
    runs: tuple[Values, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """A model as dlbuild sees it and as the file has it."""

    file: Path
    graph: Graph
    weights: Values
    book: RuleBook


def reference(model: Model, samples: Sequence[Sample], wanted: Sequence[str]) -> Reference:
    """Return the value of each tensor of `wanted` for each sample.

    Raises:
        UserError: a rule's steps and the evaluator disagree, an output has another shape, or
            nobody knows an output.
    """
    notes: list[str] = []
    everything = [name for op in model.graph.ops for name in op.outputs if name]
    for ask, names in ((ask_runtime, wanted), (ask_evaluator, everything)):
        fed = [interface_values(model.graph.groups, sample.inputs) for sample in samples]
        answer = ask(model.file, fed, whole_names(model.graph.groups, names))
        notes += answer.notes
        if answer.runs is not None:
            members = member_values(model.graph.groups, answer.runs)
            runs = [_left_of(model.graph, filled(model.graph, run)) for run in members]
            _require_shapes(model.graph, answer.source, runs)
            if answer.is_checked:
                notes.append(_check(model, samples, runs))
            return _completed(model, answer.source, runs, samples, wanted, notes)
    nothing: tuple[Values, ...] = tuple({} for _ in samples)
    return _completed(model, "the steps of the rules (numpy)", nothing, samples, wanted, notes)


def _left_of(graph: Graph, run: Values) -> dict[str, Array]:
    """Return a run without the slices that were folded away."""
    found = dict(run)
    for kept in graph.kept:
        if kept.tensor in found:
            found[kept.tensor] = found[kept.tensor].take(kept.members, kept.axis)
    return found


def _require_shapes(graph: Graph, source: str, runs: Sequence[Values]) -> None:
    for run in runs:
        for name in graph.outputs:
            if name in run and run[name].shape != graph.tensor[name].shape:
                raise UserError(
                    f"output '{name}' has the shape {list(run[name].shape)} in {source},"
                    f" {list(graph.tensor[name].shape)} here",
                    fix="bind the model's dynamic dimensions under 'shapes'",
                )


def _completed(  # noqa: PLR0913, PLR0917 - one call, split from its caller for length
    model: Model,
    source: str,
    runs: Sequence[Values],
    samples: Sequence[Sample],
    wanted: Sequence[str],
    notes: Sequence[str],
) -> Reference:
    """Add what the oracle does not know, computed from what it does know."""
    complete = []
    for run, sample in zip(runs, samples, strict=True):
        known = {name: run[name] for name in wanted if _fits(model.graph, name, run)}
        values = {**model.weights, **sample.inputs, **known}
        for op in needed(model.graph, wanted, values):
            if all(name in values for name in op.inputs if name):
                values |= computed(op, model, values)
        complete.append({name: values[name] for name in wanted if name in values})
        _require_outputs(model.graph, wanted, values)
    return Reference(source, tuple(complete), tuple(dict.fromkeys(notes)))


def _require_outputs(graph: Graph, wanted: Sequence[str], values: Values) -> None:
    for name in graph.outputs:
        if name in wanted and name not in values:
            unknown = next(op for op in needed(graph, [name], values) if not _is_known(op, values))
            raise UserError(
                f"nothing knows what operator '{unknown.name}' ({unknown.kind}) computes",
                why="its rule has no steps that numpy could carry out",
                fix="install onnxruntime: pip install 'dlbuild[ort]', or give expected outputs",
            )


def _is_known(op: Op, values: Values) -> bool:
    return any(name in values for name in op.outputs)


def _fits(graph: Graph, name: str, run: Values) -> bool:
    """A tensor of the file is the graph's if it has its name, and with it its shape."""
    return name in run and run[name].shape == graph.tensor[name].shape


def needed(graph: Graph, wanted: Sequence[str], known: Collection[str]) -> list[Op]:
    """Return the operators that lead from what is known to what is wanted, in order."""
    missing = {name for name in wanted if name not in known}
    found = []
    for op in reversed(graph.ops):
        if missing.intersection(op.outputs):
            found.append(op)
            missing.update(name for name in op.inputs if name and name not in known)
    return found[::-1]


def computed(op: Op, model: Model, values: Values) -> dict[str, Array]:
    """Return an operator's outputs by the steps of its rule, with the ONNX rounding.

    Without steps an oracle runs the operator alone; nothing is returned if none does.
    """
    instance = match(op, model.graph, model.book, Wish())
    if not instance.nests:
        return filled(model.graph, ask_alone(alone(op, model), values))
    tensor_of = {operand.name: operand.tensor for operand in instance.operands}
    inputs = {
        operand.name: values[operand.tensor]
        for operand in instance.operands
        if operand.role == "input" and operand.tensor in values
    }
    return {tensor_of[name]: array for name, array in interpret(instance, inputs).items()}


def alone(op: Op, model: Model) -> "onnx.ModelProto":
    """Return the model of one operator, in which constants are constants."""
    graph = model.graph
    reads = [name for name in dict.fromkeys(op.inputs) if name]
    constants = tuple(name for name in reads if name in graph.constants)
    inputs = tuple(name for name in reads if name not in constants)
    outputs = tuple(name for name in op.outputs if name)
    tensors = tuple(graph.tensor[name] for name in (*reads, *outputs))
    part = Graph(op.name, inputs, outputs, tensors, (op,), constants, counts=model.graph.counts)
    return to_onnx(part, model.weights)


def _check(model: Model, samples: Sequence[Sample], runs: Sequence[Values]) -> str:
    """Compare each operator's steps with the evaluator, given the evaluator's inputs."""
    checked: dict[str, None] = {}
    for run, sample in zip(runs, samples, strict=True):
        values: dict[str, Array] = {**model.weights, **sample.inputs}
        for op in model.graph.ops:
            for name, array in computed(op, model, values).items():
                values[name] = array
                if _fits(model.graph, name, run):
                    _require_near(model.graph, op, name, array, run[name])
                    values[name] = run[name]
                    checked[op.name] = None
    return f"the rules agree with onnx's evaluator on {len(checked)} of {len(model.graph.ops)} ops"


def _require_near(graph: Graph, op: Op, name: str, ours: Array, theirs: Array) -> None:
    tensor = graph.tensor[name]
    limit: Limit = limit_for(tensor.dtype, Tolerance(), 1)
    found = compare(tensor, "", [(ours, theirs)], limit)
    if not found.passed:
        raise UserError(
            f"the steps of the rule and onnx's evaluator differ at '{name}'",
            where=f"node '{op.name}' ({op.kind})",
            details=[f"{found.n_outside} of {found.n_elements} elements beyond {limit}"],
            why=f"the greatest difference is {found.max_abs:g}",
        )
