"""The two programs that may know what a model computes: ONNX Runtime and onnx's evaluator."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from dlbuild.ir.weights import Array

if TYPE_CHECKING:
    import onnx

Values = Mapping[str, Array]
Given = Array | list[Array]
Fed = Mapping[str, Given]
"""Tensors by name; a sequence is a list."""

MODERN_OPSET = 21
"""A version of ONNX of which the evaluator has every operator."""

SOFTMAX_OPSET = 13
"""The version of ONNX in which Softmax ceased to see its operand as a matrix."""


@dataclass(frozen=True)
class Answer:
    """What an oracle said: its name and version, and the tensors it knows for each sample.

    runs: None if it cannot run the model; `notes` then say why.
    is_checked: whether the rules' steps are to be compared with it.
    """

    source: str
    runs: tuple[Fed, ...] | None = None
    notes: tuple[str, ...] = ()
    is_checked: bool = False


def ask_runtime(file: Path, inputs: Sequence[Fed], wanted: Sequence[str]) -> Answer:
    """Ask ONNX Runtime: no optimisation, one thread."""
    try:
        import onnxruntime  # noqa: PLC0415 - optional
    except ImportError:
        return Answer("ONNX Runtime", notes=("ONNX Runtime is not installed",))
    source = f"ONNX Runtime {onnxruntime.__version__}"
    options = _options(onnxruntime)
    try:
        model, names = _with_outputs(file, wanted)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        has = {entry.name for entry in session.get_inputs()}
        runs = []
        for values in inputs:
            feeds = {name: contiguous(value) for name, value in values.items() if name in has}
            answers = map(_numbers, session.run(names, feeds))
            runs.append(dict(zip(names, answers, strict=True)))
    except Exception as fault:  # noqa: BLE001 - whatever it refuses, the next oracle is asked
        return Answer(source, notes=(f"{source} does not run the model: {_first_line(fault)}",))
    return Answer(source, tuple(runs))


def contiguous(value: Given) -> Given:
    """Return arrays as the runtime takes them."""
    if isinstance(value, list):
        return [np.asarray(array, order="C") for array in value]
    return np.asarray(value, order="C")


def ask_evaluator(file: Path, inputs: Sequence[Fed], wanted: Sequence[str]) -> Answer:
    """Ask onnx's reference evaluator, which lacks the older versions of some operators."""
    import onnx  # noqa: PLC0415 - slow to import

    source = f"onnx {onnx.__version__} reference evaluator"
    reason = ""
    for version in _versions(file):
        try:
            model, names = _with_outputs(file, wanted, version)
            return Answer(source, _evaluated(model, names, inputs), is_checked=True)
        except Exception as fault:  # noqa: BLE001 - whatever it refuses, the rules' steps remain
            reason = reason or _first_line(fault)
    return Answer(source, notes=(f"the {source} does not run it: {reason}",))


def ask_alone(model: "onnx.ModelProto", values: Values) -> dict[str, Array]:
    """Ask both for what a model of one operator computes; empty if neither runs it."""
    names, feeds = _alone(model, values)
    with suppress(Exception):  # whatever it refuses, the next is asked
        import onnxruntime  # noqa: PLC0415 - optional

        session = onnxruntime.InferenceSession(
            model.SerializeToString(), _options(onnxruntime), providers=["CPUExecutionProvider"]
        )
        return dict(zip(names, session.run(names, feeds), strict=True))
    return ask_evaluator_alone(model, values)


def ask_evaluator_alone(model: "onnx.ModelProto", values: Values) -> dict[str, Array]:
    """Ask onnx's evaluator for what a model of one operator computes; empty if it lacks it."""
    names, feeds = _alone(model, values)
    with suppress(Exception):  # whatever it refuses, it does not know
        (answer,) = _evaluated(model, names, [feeds])
        return {name: array for name, array in answer.items() if not isinstance(array, list)}
    return {}


def _alone(model: "onnx.ModelProto", values: Values) -> tuple[list[str], dict[str, Array]]:
    """Return the names of the outputs, and the inputs."""
    feeds = {e.name: np.asarray(values[e.name], order="C") for e in model.graph.input}
    return [entry.name for entry in model.graph.output], feeds


def _options(onnxruntime: ModuleType) -> object:
    """Return the options that let ONNX Runtime compute as the model says, the same each time."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # its refusals come as exceptions
    return options


def _numbers(answer: Given | list[dict[str, float]]) -> Given:
    """Return an output's numbers; of one map for each row its values, in the map's order."""
    if not isinstance(answer, list):
        return answer
    rows = [[*row.values()] for row in answer if isinstance(row, dict)]
    return np.array(rows, np.float32) if rows else [np.asarray(member) for member in answer]


def _versions(file: Path) -> tuple[int, int]:
    """Return the versions to evaluate the model in, 0 for its own, the best first.

    The evaluator takes a Softmax of any version for one of 13.
    """
    import onnx  # noqa: PLC0415 - slow to import

    model = onnx.load(str(file), load_external_data=False)
    own = max((entry.version for entry in model.opset_import if not entry.domain), default=0)
    return (MODERN_OPSET, 0) if own < SOFTMAX_OPSET else (0, MODERN_OPSET)


def _evaluated(
    model: "onnx.ModelProto", names: Sequence[str], inputs: Sequence[Fed]
) -> tuple[Fed, ...]:
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - slow to import

    evaluator = ReferenceEvaluator(model)
    with np.errstate(all="ignore"):
        answers = [evaluator.run(list(names), dict(values)) for values in inputs]
    return tuple(dict(zip(names, answer, strict=True)) for answer in answers)


def _with_outputs(
    file: Path, wanted: Sequence[str], opset: int = 0
) -> tuple["onnx.ModelProto", list[str]]:
    """Return the model with each wanted tensor that it has as an output, and their names.

    opset: convert it to that version first; 0 leaves it as it is.
    """
    import onnx  # noqa: PLC0415 - slow to import
    from onnx import version_converter  # noqa: PLC0415 - as above

    model = onnx.load(str(file))
    if opset:
        model = version_converter.convert_version(model, opset)
    made = {name for node in model.graph.node for name in node.output}
    declared = {entry.name for entry in model.graph.output}
    names = [name for name in dict.fromkeys(wanted) if name in made | declared]
    names = names or sorted(declared)  # no names would mean each of the outputs
    model.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in declared
    )
    return model, names


def _first_line(fault: Exception) -> str:
    text = str(fault).strip()
    return text.splitlines()[0] if text else type(fault).__name__
