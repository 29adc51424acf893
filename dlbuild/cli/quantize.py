"""`dlbuild quantize`: an int8 model beside a float one, and what it costs in accuracy."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.files import write_atomically
from dlbuild.base.paths import builtin_folder
from dlbuild.build.trial import Trial, trials
from dlbuild.cli.arguments import Parser
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.report.text import table_text
from dlbuild.rulebook.load import load_rules
from dlbuild.run.quantize import quantized
from dlbuild.run.reference import Model, reference
from dlbuild.run.samples import Sample, read_samples
from dlbuild.stages.parse import parse

FLOAT, INT8 = "float", "int8"
NAMES = {FLOAT: "original", INT8: "quantized"}
_HEADER = ("", "arena", "flash", "output", "max abs", "same greatest")


def arguments(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_argument("model", metavar="MODEL", help="the float model, an .onnx file")
    parser.add_argument(
        "--samples",
        metavar="FILE",
        required=True,
        help="an .npz file of inputs, as `samples` in dlbuild.yaml: some dozens that are like those"
        " of the device; with outputs, those are what is right",
    )
    parser.add_argument(
        "--output", metavar="FILE", default="", help="default: MODEL with _int8 before .onnx"
    )
    parser.add_argument(
        "--shape",
        metavar="NAME=N,N...",
        action="append",
        default=[],
        help="the shape of an input that the model leaves open",
    )
    parser.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for all weights of a layer, not one for each output channel",
    )


def run(given: argparse.Namespace) -> int:
    """Write the int8 model and print what both take and how near both are."""
    source = Path(given.model)
    output = Path(given.output or source.with_name(f"{source.stem}_int8.onnx"))
    if output.resolve() == source.resolve():
        raise UserError(
            "the int8 model would replace the float one", where=str(output), fix="name another"
        )
    shapes = dict(map(_shape, given.shape))
    parsed = parse(source, shapes, load_rules([builtin_folder()]), NAMES[FLOAT])
    _check_float(source, parsed.graph)
    samples = read_samples(Path(given.samples), parsed.graph)
    model = Model(source, parsed.graph, parsed.weights, load_rules([builtin_folder()]))
    due, against = _due(model, samples)
    content = quantized(source, [s.inputs for s in samples], is_per_channel=not given.per_tensor)
    write_atomically(output, content, output.parent)
    count = f"{len(samples)} sample{'s' if len(samples) != 1 else ''}"
    print(f"{output}: {len(content):,} B, with the ranges of {count}")
    print(f"the C of both on these samples, against {against}:")
    files = {NAMES[FLOAT]: source, NAMES[INT8]: output}
    print("\n".join(f"  {line}" for line in _lines(trials(files, shapes, due))))
    return 0


def _check_float(source: Path, graph: Graph) -> None:
    """Refuse a model most of whose numbers are of 8 bits: quantising it again only costs."""
    tensors = [graph.tensor[name] for name in graph.constants]
    n_narrow = sum(prod(t.shape) for t in tensors if t.dtype in ("int8", "uint8"))
    n_real = sum(prod(t.shape) for t in tensors if DTYPES[t.dtype].kind == "float")
    if n_narrow > n_real:
        raise UserError(
            "the model is quantised already",
            where=str(source),
            why=f"of its constants {n_narrow:,} numbers have 8 bits, {n_real:,} are floats",
            fix="name it in dlbuild.yaml as it is, or give the float model",
        )


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, extents = text.rpartition("=")
    try:
        return name, tuple(int(extent) for extent in extents.split(","))
    except ValueError:
        raise UserError(
            f"'{text}' is no shape",
            where="dlbuild quantize --shape",
            fix="write it as --shape image=1,3,96,96",
            exit_code=2,
        ) from None


def _due(model: Model, samples: Sequence[Sample]) -> tuple[list[Sample], str]:
    """Return the samples with what is right for each output, and who said so."""
    outputs = model.graph.outputs
    wanted = [name for name in outputs if name not in samples[0].expected]
    if not wanted:
        return list(samples), "the outputs of the samples"
    answer = reference(model, samples, wanted)
    full = [
        replace(sample, expected={name: {**run, **sample.expected}[name] for name in outputs})
        for sample, run in zip(samples, answer.runs, strict=True)
    ]
    return full, f"what the float model gives in {answer.source}"


def _lines(found: Mapping[str, Trial]) -> Iterator[str]:
    rows = []
    for kind, name in NAMES.items():
        trial = found[name]
        for number, output in enumerate(trial.verdict.outputs):
            agree = f"{output.n_argmax:,} of {output.n_rows:,}" if output.n_rows else "-"
            first = (kind, f"{trial.arena_bytes:,} B", f"{trial.flash_bytes:,} B")
            start = first if number == 0 else ("", "", "")
            rows.append((*start, output.tensor, f"{output.max_abs:.3g}", agree))
    return table_text(_HEADER, rows)
