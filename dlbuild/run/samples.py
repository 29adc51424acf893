"""What a model is verified with: inputs, and expected outputs where the user gives them."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph, Tensor
from dlbuild.ir.weights import Array, numpy_dtype
from dlbuild.run.counted import filled, fits

SEED = 20240229
N_SEEDED = 3


@dataclass(frozen=True)
class Sample:
    """One inference: a value for each input, expected values for some outputs or none."""

    inputs: Mapping[str, Array]
    expected: Mapping[str, Array] = field(default_factory=dict)


def samples_of(
    path: Path | None, graph: Graph, weights: Mapping[str, Array] | None = None
) -> tuple[Sample, ...]:
    """Return the samples of a file, or seeded ones if there is no file.

    weights: the model's constants, among them what states have at first.
    """
    found = weights or {}
    copies = graph.replicas
    own = _without_replicas(graph)
    initial = {s.input: found[s.initial] for s in own.states if s.initial in found}
    if path is None:
        seeded = seeded_samples(own)
        samples = tuple(replace(s, inputs={**s.inputs, **initial}) for s in seeded)
    else:
        samples = read_samples(path, own, initial)
    return tuple(
        replace(s, inputs={n: s.inputs[copies.get(n, n)] for n in graph.inputs}) for s in samples
    )


def _without_replicas(graph: Graph) -> Graph:
    """Return a graph with the interface of its model, each state once."""
    return replace(
        graph,
        inputs=tuple(name for name in graph.inputs if name not in graph.replicas),
        outputs=tuple(name for name in graph.outputs if name not in graph.replicas),
        states=tuple(state for state in graph.states if not state.replica_of),
    )


def seeded_samples(graph: Graph, count: int = N_SEEDED) -> tuple[Sample, ...]:
    """Return `count` samples: floats are normal, integers cover the range of their type."""
    rng = np.random.default_rng(SEED)
    inputs = [graph.tensor[name] for name in graph.inputs]
    return tuple(Sample({t.name: _seeded(t, rng) for t in inputs}) for _ in range(count))


def _seeded(tensor: Tensor, rng: np.random.Generator) -> Array:
    kind, bits = DTYPES[tensor.dtype].kind, DTYPES[tensor.dtype].bits
    dtype = numpy_dtype(tensor.dtype)
    if kind == "float":
        return rng.standard_normal(tensor.shape).astype(np.float32).astype(dtype)
    if kind == "bool":
        return rng.integers(0, 2, tensor.shape).astype(dtype)
    if kind == "uint":
        top = (1 << bits) - 1
        return rng.integers(0, top, tensor.shape, np.uint64, endpoint=True).astype(dtype)
    half = 1 << (bits - 1)
    return rng.integers(-half, half - 1, tensor.shape, np.int64, endpoint=True).astype(dtype)


def read_samples(
    path: Path, graph: Graph, initial: Mapping[str, Array] | None = None
) -> tuple[Sample, ...]:
    """Return the samples of an .npz file.

    Keys are tensor names, or `in0`, `in1`... and `out0`... in the model's order. An array has its
    tensor's shape, or one more leading axis that counts the samples. A state that is not among them
    has its value of `initial`, else zeros.

    Raises:
        UserError: not an .npz file, an unknown key, a missing input, or a shape, an element type
            or a number of samples that does not fit.
    """
    given = dict(_stacks(path, graph))
    at_first = _at_first(graph, initial or {})
    missing = [name for name in graph.inputs if name not in {*given, *at_first}]
    if missing:
        raise UserError(
            f"no samples for input '{missing[0]}'",
            where=str(path),
            fix=f"add an array named '{missing[0]}' or 'in{graph.inputs.index(missing[0])}'",
        )
    lengths = {name: len(stack) for name, stack in given.items()}
    first = next((name for name in graph.inputs if name in given), "")
    count = lengths.get(first, 1)
    for name, length in lengths.items():
        if first and length != count:
            raise UserError(
                f"'{name}' has {length} samples, '{first}' has {count}", where=str(path)
            )
    return tuple(
        Sample(
            {n: given[n][number] if n in given else at_first[n] for n in graph.inputs},
            filled(graph, {n: given[n][number] for n in graph.outputs if n in given}),
        )
        for number in range(count)
    )


def _at_first(graph: Graph, initial: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return what each state has before the first run."""
    tensors = [graph.tensor[state.input] for state in graph.states]
    zeros = {t.name: np.zeros(t.shape, numpy_dtype(t.dtype)) for t in tensors}
    return {**zeros, **initial}


def _stacks(path: Path, graph: Graph) -> Iterator[tuple[str, Array]]:
    """Yield each tensor's name and its samples, stacked."""
    aliases = {f"in{number}": name for number, name in enumerate(graph.inputs)}
    aliases |= {f"out{number}": name for number, name in enumerate(graph.outputs)}
    aliases |= {name: name for name in (*graph.inputs, *graph.outputs)}
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [(key, file[key]) for key in file.files]
    except FileNotFoundError as fault:
        raise UserError("no such samples file", where=str(path)) from fault
    except (OSError, ValueError, AttributeError, TypeError, zipfile.BadZipFile) as fault:
        raise UserError(
            "not an .npz file of numpy", where=str(path), fix="write it with numpy.savez"
        ) from fault
    for key, array in arrays:
        if key not in aliases:
            raise _unknown(key, path, [*graph.inputs, *graph.outputs])
        tensor = graph.tensor[aliases[key]]
        yield tensor.name, _stacked(key, array, tensor, graph, path)


def _unknown(key: str, path: Path, names: Sequence[str]) -> UserError:
    return UserError(
        f"the model has no input or output '{key}'",
        where=str(path),
        fix=f"its inputs and outputs are {', '.join(repr(name) for name in names)}",
    )


def _stacked(key: str, array: Array, tensor: Tensor, graph: Graph, path: Path) -> Array:
    due = numpy_dtype(tensor.dtype)
    if array.dtype.kind == "V" and array.dtype.itemsize == due.itemsize:
        array = array.view(due)  # numpy stores the narrow types as raw bytes
    if array.dtype != due:
        raise UserError(
            f"'{key}' is {array.dtype.name}, the model's '{tensor.name}' is {tensor.dtype}",
            where=str(path),
        )
    if fits(graph, tensor.name, array.shape):
        return array[None]
    if array.ndim == len(tensor.shape) + 1 and fits(graph, tensor.name, array.shape[1:]):
        return array
    raise UserError(
        f"'{key}' has the shape {list(array.shape)}, the model's '{tensor.name}' has"
        f" {list(tensor.shape)}",
        where=str(path),
        fix="give that shape, or one more leading axis that counts the samples",
    )
