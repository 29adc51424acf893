"""How far a result may be from the reference for a reason that is not the C's.

Asked only about results beyond the limit of their type. The reasons, each measured without the C:

- Integers behind a real result. Where two numbers lie near a tie, one of them rounds up and the
  other down, and what is computed from them differs by a whole step of their grid.
- The reference's own rounding. A sum of large terms that cancel is known to the rounding of the
  terms, not of the sum. How far the reference is from the same steps in float64 shows it.
- A reference that is wrong: ONNX Runtime saturates sums of unsigned and signed 8-bit products on
  some processors. onnx's evaluator, asked for that operator alone, then decides.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import numpy.typing as npt

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.weights import Array
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.match import Wish, match
from dlbuild.run.reference import Model, alone, computed, needed
from dlbuild.run.reference_oracles import ask_evaluator_alone

Floats = npt.NDArray[np.float64]
Values = Mapping[str, Array]

OWN_ERRORS = 2.0
"""The C may be on the other side of the exact value, as far as the reference."""

GREATEST_SHARE = 1e-4
"""Of the range; a greater difference between two orders of summation is no rounding."""

_NARROW_BITS = 16


@dataclass(frozen=True)
class Question:
    """A tensor that is beyond its limit.

    known: for each sample, tensors that the C and the reference had in common before it.
    due: for each sample, what the reference says.
    n_steps: how many kernels may each have rounded another way.
    """

    model: Model
    tensor: str
    known: tuple[Values, ...]
    due: tuple[Array, ...]
    n_steps: int = 1


@dataclass(frozen=True)
class Slack:
    """What each element of each sample may differ by beyond its limit, and why."""

    arrays: tuple[Floats, ...]
    why: str


def slack_of(question: Question) -> Slack | None:
    """Return what the reals of a tensor may differ by; None if there is no reason to differ."""
    graph, name = question.model.graph, question.tensor
    if DTYPES[graph.tensor[name].dtype].kind != "float":
        return None
    chain = needed(graph, [name], question.known[0])
    grids = rounded_before(graph, name, chain)
    if grids:
        arrays = tuple(map(_Steps(question, chain, grids).slack, question.known))
        greatest = max(float(array.max(initial=0.0)) for array in arrays)
        count = "one step" if question.n_steps == 1 else f"{question.n_steps} steps"
        return Slack(arrays, f"{count} of the integers before it ({greatest:.3g})")
    errors = [
        _own_error(question.model, chain, name, known, due)
        for known, due in zip(question.known, question.due, strict=True)
    ]
    if any(error is None for error in errors):
        return None
    found = [OWN_ERRORS * error for error in errors if error is not None]
    arrays = tuple(np.full(due.shape, e) for due, e in zip(question.due, found, strict=True))
    return Slack(arrays, f"twice the reference's own rounding ({max(found):.3g})")


def evaluated(question: Question) -> tuple[Array, ...] | None:
    """Return what onnx's evaluator says of a tensor; None unless it has every operator of it."""
    model = question.model
    found = []
    for known in question.known:
        values = {**model.weights, **known}
        for op in needed(model.graph, [question.tensor], known):
            answer = ask_evaluator_alone(alone(op, model), values)
            if not answer:
                return None
            values |= answer
        found.append(values[question.tensor])
    return tuple(found)


def rounded_before(graph: Graph, name: str, chain: Sequence[Op]) -> tuple[str, ...]:
    """Return the last tensors of narrow integers that the operators of a chain write on the way."""
    producer = {output: op for op in chain for output in op.outputs}
    found: dict[str, None] = {}
    seen: set[str] = set()
    pending = [name]
    while pending:
        op = producer.get(pending.pop())
        for source in op.inputs if op else ():
            if source in seen or source not in producer:
                continue
            seen.add(source)
            if _is_narrow_integer(graph, source):
                found[source] = None
            else:
                pending.append(source)
    return tuple(found)


def narrowest(graph: Graph, name: str, known: Collection[str]) -> str:
    """Return the narrowest type of reals that a real tensor has passed through on the way."""
    dtypes = [graph.tensor[name].dtype]
    for op in needed(graph, [name], known):
        dtypes += [graph.tensor[output].dtype for output in op.outputs if output]
    return min((d for d in dtypes if DTYPES[d].kind == "float"), key=lambda d: DTYPES[d].bits)


def _is_narrow_integer(graph: Graph, name: str) -> bool:
    dtype = DTYPES[graph.tensor[name].dtype]
    return dtype.kind in ("int", "uint") and dtype.bits <= _NARROW_BITS


class _Steps:
    """Measures what a step of some integers is worth in a result."""

    def __init__(self, question: Question, chain: Sequence[Op], grids: Sequence[str]) -> None:
        self._question = question
        self._chain = chain
        self._grids = grids

    def slack(self, known: Values) -> Floats:
        """Return how far each element moves if its integers all move by one, in four patterns."""
        model, name = self._question.model, self._question.tensor
        values = _carried(model, self._chain, {**model.weights, **known})
        held = {**model.weights, **known, **{grid: values[grid] for grid in self._grids}}
        after = needed(model.graph, [name], held)
        greatest = np.zeros(values[name].shape)
        for first, second in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
            moved = {grid: _moved(values[grid], first, second) for grid in self._grids}
            result = _carried(model, after, {**held, **moved})[name].astype(np.float64)
            with np.errstate(invalid="ignore"):
                apart = np.abs(result - values[name].astype(np.float64))
            greatest = np.maximum(greatest, np.nan_to_num(apart, nan=0.0, posinf=0.0))
        return greatest * self._question.n_steps


def _moved(array: Array, first: int, second: int) -> Array:
    """Add one number to the elements at even places and another to those at odd ones."""
    limits = np.iinfo(array.dtype.name)
    change = np.where(np.arange(array.size) % 2, second, first).reshape(array.shape)
    moved: Array = np.clip(array.astype(np.int64) + change, limits.min, limits.max)
    return moved.astype(array.dtype)


def _carried(model: Model, chain: Sequence[Op], values: Values) -> dict[str, Array]:
    """Return values with the results of a chain of operators."""
    held = dict(values)
    for op in chain:
        held |= computed(op, model, held)
    return held


def _own_error(
    model: Model, chain: Sequence[Op], name: str, known: Values, due: Array
) -> float | None:
    """Return how far the reference is from float64; None if operators have no steps."""
    held = {n: _wide(array) for n, array in {**model.weights, **known}.items()}
    for op in chain:
        instance = match(op, model.graph, model.book, Wish())
        if not instance.nests:
            return None
        inputs = {
            operand.name: held[operand.tensor]
            for operand in instance.operands
            if operand.role == "input" and operand.tensor in held
        }
        tensor_of = {operand.name: operand.tensor for operand in instance.operands}
        results = interpret(widened(instance), inputs)
        held |= {tensor_of[operand]: array for operand, array in results.items()}
    exact = held[name]
    with np.errstate(invalid="ignore"):
        apart = np.nan_to_num(np.abs(exact - due.astype(np.float64)), nan=0.0, posinf=0.0)
    size = np.abs(exact[np.isfinite(exact)])
    limit = GREATEST_SHARE * float(size.max(initial=0.0)) / OWN_ERRORS
    return min(float(apart.max(initial=0.0)), limit)


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def widened(instance: Instance) -> Instance:
    """Return an instance that computes in float64 what the given one does in float32."""
    made = _widened(instance)
    assert isinstance(made, Instance)
    return made


_WIDER = {"float32": "float64", "f32": "f64"}
_TYPES = frozenset({"dtype", "kind", "type"})
"""Fields of an instance's parts that name an element type or a type of C."""


def _widened(part: object) -> object:
    if isinstance(part, tuple):
        return tuple(map(_widened, part))
    if isinstance(part, Mapping):
        return {key: _widened(value) for key, value in part.items()}
    if not is_dataclass(part) or isinstance(part, type | Index):
        return part
    changes = {}
    for field in fields(part):
        value = getattr(part, field.name)
        is_type = field.name in _TYPES and isinstance(value, str)
        changes[field.name] = _WIDER.get(value, value) if is_type else _widened(value)
    return replace(part, **changes)
