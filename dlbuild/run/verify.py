"""Whether the generated C computes what the model computes.

The C is compiled into a program and run on samples: the whole model several times, and each kernel
alone on the reference's own inputs, so that what one kernel adds is not hidden by the ones before.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dlbuild.ir.schedule import Step
from dlbuild.ir.weights import Array
from dlbuild.run.board import BoardMaker, boards_folder
from dlbuild.run.compile import optimization
from dlbuild.run.counted import with_rest_of
from dlbuild.run.reference import Model, Reference, reference
from dlbuild.run.runner import (
    Built,
    Values,
    code_steps,
    layer_program,
    model_program,
    reads_of,
    run_layers,
    run_model,
    writes_of,
)
from dlbuild.run.runner_program import Maker, compiler_for
from dlbuild.run.samples import Sample
from dlbuild.run.verify_compare import Comparison, Tolerance
from dlbuild.run.verify_judge import judged
from dlbuild.run.verify_notes import notes_of
from dlbuild.run.verify_replicas import replica_comparison
from dlbuild.run.verify_slack import Question

N_RUNS = 3
SERIAL = "-DBOARD_SERIAL"
"""Lets all cores of a program run on one thread."""

EXPECTED = "expected outputs of the samples"


@dataclass(frozen=True)
class Verdict:
    """What verify found.

    reference: who said what is right. outputs: one entry for each output, over all samples.
    layers: one entry for each tensor that a kernel writes, given the reference's inputs; empty if
        not asked for.
    is_repeatable: all runs of a sample gave the same bytes, whatever the arena held before.
    notes: sentences for the user.
    """

    model: str
    target: str
    reference: str
    n_samples: int
    n_runs: int
    is_repeatable: bool
    outputs: tuple[Comparison, ...]
    layers: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything is within its limit and every run gave the same."""
        return self.is_repeatable and all(c.passed for c in (*self.outputs, *self.layers))


@dataclass(frozen=True)
class Checks:
    """How to verify.

    layers: also each kernel alone. flags: further flags of the compiler, such as a sanitizer.
    work: a folder for the programs, to look at; none = a temporary one.
    """

    layers: bool = False
    tolerance: Tolerance = field(default_factory=Tolerance)
    n_runs: int = N_RUNS
    flags: tuple[str, ...] = ()
    work: Path | None = None


def verify(
    built: Built,
    weights: Mapping[str, Array],
    model_file: Path,
    samples: Sequence[Sample],
    checks: Checks,
) -> Verdict:
    """Compare the C of a build with the reference.

    Args:
        built: plans and C files.
        weights: the model's constants, for what no other program computes.
        model_file: the ONNX file.
        samples: inputs; an output that a sample expects is compared with that, the others with
            the reference.
        checks: what to check, and how near is near enough.

    Raises:
        UserError: the C does not compile or run here, or two references disagree.
    """
    maker = _maker(built, checks)
    model = Model(model_file, built.graph, weights, built.book)
    answer = _reference(model, built, samples, layers=checks.layers)
    with tempfile.TemporaryDirectory(prefix="dlbuild-verify-") as temporary:
        work = checks.work or Path(temporary)
        runs = _runs(built, samples, maker, checks, work)
        layers = _layers(built, answer, maker, work) if checks.layers else {}
    notes = [*notes_of(built), maker.note, *(answer.notes if answer else ())]
    if checks.layers and answer is not None:
        notes += _unknown(built, answer)
    return Verdict(
        model=built.name,
        target=built.target.name,
        reference=_source(samples, answer),
        n_samples=len(samples),
        n_runs=checks.n_runs,
        is_repeatable=all(_are_equal(of_sample) for of_sample in runs),
        outputs=_outputs(model, built, samples, answer, runs, checks.tolerance),
        layers=_layer_comparisons(model, built, answer, layers, checks.tolerance),
        notes=tuple(note for note in notes if note),
    )


def _maker(built: Built, checks: Checks) -> Maker:
    if built.target.runner:
        return BoardMaker(built.target, built.options)
    return compiler_for(built.target, (optimization(built.options), *checks.flags))


def _source(samples: Sequence[Sample], answer: Reference | None) -> str:
    """Say what outputs were compared with: samples go before the reference."""
    names = [EXPECTED] if any(sample.expected for sample in samples) else []
    return ", else ".join([*names, *([answer.source] if answer else [])])


def _reference(
    model: Model, built: Built, samples: Sequence[Sample], *, layers: bool
) -> Reference | None:
    """Ask the reference for what is to be compared; None if the samples expect all of it."""
    outputs = [name for name in model.graph.outputs if name not in model.graph.replicas]
    expected = [name for name in outputs if all(name in s.expected for s in samples)]
    wanted = [name for name in outputs if name not in expected]
    if layers:
        steps = code_steps(built)
        wanted += [name for step in steps for name in reads_of(built, step)]
        wanted += [name for step in steps for name in writes_of(built, step)]
    return reference(model, samples, tuple(dict.fromkeys(wanted))) if wanted else None


def _runs(
    built: Built, samples: Sequence[Sample], maker: Maker, checks: Checks, work: Path
) -> tuple[tuple[Values, ...], ...]:
    n_runs, flags = checks.n_runs, checks.flags
    tables = built.tables(work)
    is_here = not built.target.runner
    text = model_program(built, is_honest=is_here, kills_dead=True)
    inputs = [sample.inputs for sample in samples]
    program = maker.program(text, "run", [*tables, *built.ports(is_honest=is_here)], work)
    found = run_model(built, program, inputs, n_runs)
    if built.target.resources[1] == 1 or not is_here:
        return found
    # The same cores on one thread, in orders that threads seldom have.
    serial = compiler_for(built.target, (SERIAL, optimization(built.options), *flags))
    program = serial.program(text, "serial", [*tables, boards_folder() / "cores_serial.c"], work)
    others = run_model(built, program, inputs, n_runs)
    return tuple((*runs, *more) for runs, more in zip(found, others, strict=True))


def _layers(
    built: Built, answer: Reference | None, maker: Maker, work: Path
) -> dict[int, tuple[Values, ...]]:
    steps = [] if answer is None else _known_steps(built, answer)
    if answer is None or not steps:
        return {}
    tables = built.tables(work)
    ports = built.ports(is_honest=not built.target.runner)
    program = maker.program(layer_program(built, steps), "layers", [*tables, *ports], work)
    return run_layers(built, program, steps, answer.runs)


def _known_steps(built: Built, answer: Reference) -> list[Step]:
    """Return the steps of which the reference knows what they read, and something they write."""
    return [
        step
        for step in code_steps(built)
        if all(name in run for run in answer.runs for name in reads_of(built, step))
        and any(name in run for run in answer.runs for name in writes_of(built, step))
    ]


def _unknown(built: Built, answer: Reference) -> list[str]:
    """Say which kernels are compared as part of the whole alone."""
    known = {step.number for step in _known_steps(built, answer)}
    names = [step.kernel for step in code_steps(built) if step.number not in known]
    rows = dict.fromkeys(step.kernel for step in built.schedule.steps if step.strip)
    said = []
    if names:
        said.append(
            f"not compared alone, because nobody else computes what they do: {', '.join(names)}"
        )
    if rows:
        said.append(f"not compared alone, because they run row by row: {', '.join(rows)}")
    return said


def _are_equal(runs: Sequence[Values]) -> bool:
    first = {name: array.tobytes() for name, array in runs[0].items()}
    return all({n: a.tobytes() for n, a in run.items()} == first for run in runs)


def _outputs(  # noqa: PLR0913, PLR0917 - one call, split from its caller for length
    model: Model,
    built: Built,
    samples: Sequence[Sample],
    answer: Reference | None,
    runs: Sequence[Sequence[Values]],
    tolerance: Tolerance,
) -> tuple[Comparison, ...]:
    """Compare the first run of each sample."""
    n_layers = max(len({s.kernel for s in built.schedule.steps if s.is_code}), 1)
    found = []
    for name in built.graph.outputs:
        if name in built.graph.replicas:
            found.append(replica_comparison(built.graph, name, [of[0] for of in runs]))
            continue
        due: list[Array] = []
        ours: list[Array] = []
        for number, sample in enumerate(samples):
            expected = sample.expected.get(name)
            if expected is None:
                assert answer is not None, "a reference was asked for what no sample expects"
                expected = answer.runs[number][name]
            due.append(np.asarray(expected))
            counts = {**(answer.runs[number] if answer else {}), **sample.expected}
            ours.append(with_rest_of(model.graph, name, runs[number][0][name], due[-1], counts))
        known = tuple(sample.inputs for sample in samples)
        question = Question(model, name, known, tuple(due), n_layers)
        found.append(judged(question, "", ours, tolerance))
    return tuple(found)


def _layer_comparisons(
    model: Model,
    built: Built,
    answer: Reference | None,
    layers: Mapping[int, Sequence[Values]],
    tolerance: Tolerance,
) -> tuple[Comparison, ...]:
    found = []
    for step in code_steps(built):
        for name in writes_of(built, step) if step.number in layers else ():
            assert answer is not None, "layers are run on a reference's inputs"
            if any(name not in run for run in answer.runs):
                continue
            reads = reads_of(built, step)
            known = tuple({n: np.asarray(run[n]) for n in reads} for run in answer.runs)
            due = tuple(np.asarray(run[name]) for run in answer.runs)
            ours = [
                with_rest_of(model.graph, name, values[name], np.asarray(run[name]), run)
                for values, run in zip(layers[step.number], answer.runs, strict=True)
            ]
            question = Question(model, name, known, due)
            found.append(judged(question, step.kernel, ours, tolerance))
    return tuple(found)
