"""`dlbuild bench`: what a run of each model costs on its target."""

import argparse
import json
from dataclasses import asdict, replace

from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine, path_of
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.project import Build
from dlbuild.build.sizes import decode_sizes
from dlbuild.cli.arguments import Parser
from dlbuild.cli.build import build_all
from dlbuild.cli.project import add_jobs, add_targets
from dlbuild.ir import weights
from dlbuild.ir.merged import MergedFunctions
from dlbuild.report.figures import figures_text
from dlbuild.run.bench import Bench, Figures, bench
from dlbuild.run.samples import samples_of


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    add_jobs(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Build what is out of date, then measure and print the figures of each build."""
    engine = build_all(given, quiet=True)
    found = []
    for one in engine.keys.recipe.builds:
        found.append(figures_of(engine, one))
        if not given.json:
            print("\n".join(figures_text(found[-1])), flush=True)
    if given.json:
        print(json.dumps([_row(figures) for figures in found], indent=2))
    return 1 if any(figures.faults for figures in found) else 0


def _row(figures: Figures) -> dict[str, object]:
    fields = asdict(figures)
    return {**fields, "content": figures.content.hex(), "faults": list(figures.faults)}


def figures_of(
    engine: Engine,
    one: Build,
    *,
    steps: bool = True,
    count: bool = True,
    merged: MergedFunctions | None = None,
) -> Figures:
    """Measure one build with its first sample.

    steps, count: see Bench. merged: which functions are one while steps are measured, those of the
    build by default.
    """
    built = built_of(engine, one)
    asked = Bench(
        built if merged is None else replace(built, merged=merged),
        weights.decode(engine.content(one, "weights")),
        path_of(engine.out, one, "archive"),
        decode_sizes(engine.content(one, "size")).stack_bytes,
        engine.out / STATE_FOLDER,
        steps,
        count,
    )
    samples = samples_of(engine.keys.recipe.models[one.model].samples, built.graph)
    return bench(asked, samples[0].inputs)
