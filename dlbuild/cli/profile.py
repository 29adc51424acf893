"""`dlbuild profile`: what each kernel costs; measured with `--run`, predicted without."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.files import write_if_changed
from dlbuild.build.engine import Engine, path_of
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.project import Build
from dlbuild.build.steps.book import book_of
from dlbuild.cli.arguments import Parser
from dlbuild.cli.build import build_all
from dlbuild.cli.measurements import (
    costs_of,
    current,
    files_of,
    profile_of,
    read_measurements,
)
from dlbuild.cli.project import add_jobs, add_targets, asked_targets
from dlbuild.ir import codec, weights
from dlbuild.ir.costs import Measurement, Measurements
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.profile_graph import ProfileGraph
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.report.clusters import clusters_text
from dlbuild.report.profile import makespan_text, profile_text, trial_text
from dlbuild.report.trace import trace_text
from dlbuild.run.samples import samples_of
from dlbuild.run.trial import Trial, plain_plan, trial
from dlbuild.stages.costs import about, missing
from dlbuild.stages.profile_graph import profile_graph
from dlbuild.stages.timeline import period


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    add_jobs(parser)
    parser.add_argument(
        "--run",
        action="store_true",
        help="measure the kernels that the file of 'profile:' does not know, and write it",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the profile graphs as JSON")
    form.add_argument("--trace", metavar="DIR", help="write MODEL@TARGET.json there, for Perfetto")


def run(given: argparse.Namespace) -> int:
    """Build what is out of date, measure if asked, print."""
    engine = build_all(given, quiet=True)
    if given.run:
        lines = _measure(engine, is_whole=not asked_targets(given))
        engine = build_all(given, quiet=True)
        if not given.json:
            print("\n".join(lines), flush=True)
    graphs = {one.label: _graph_of(engine, one) for one in engine.keys.recipe.builds}
    if given.json:
        rows = {label: asdict(found) for label, found in graphs.items()}
        print(json.dumps(rows, indent=2))
        return 0
    for one in engine.keys.recipe.builds:
        tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
        kernels = (profile_of(engine, one), costs_of(engine, one), tiles)
        print("\n".join(profile_text(one.label, *kernels)))
        kind, count = engine.keys.recipe.targets[one.target].resources
        if count > 1:
            print("\n".join(makespan_text(graphs[one.label], kind, count)))
            print("".join(f"{line}\n" for line in _clusters_of(engine, one, graphs)), end="")
    if given.trace:
        folder = Path(given.trace)
        for label, found in graphs.items():
            content = trace_text(label, found).encode()
            write_if_changed(folder / f"{label}.json", content, engine.unfinished)
    return 0


def _clusters_of(engine: Engine, one: Build, graphs: Mapping[str, ProfileGraph]) -> Iterator[str]:
    """Yield what each cluster of a build does."""
    graph = codec.decode(engine.content(one, "graph"), Graph)
    schedule = codec.decode(engine.content(one, "schedule"), Schedule)
    yield from clusters_text(graph, profile_of(engine, one), schedule, graphs[one.label])
    if graph.clusters.is_stream:
        tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
        costs = costs_of(engine, one)
        time = period(schedule, tiles, costs)
        yield f"  predicted time of each run in a stream: {time:,} {costs.unit}"


def _measure(engine: Engine, *, is_whole: bool) -> list[str]:
    """Measure what no file knows, write the files, and return what to say."""
    without = [one for one in engine.keys.recipe.builds if not one.options.profile]
    if without:
        raise UserError(
            f"{without[0].label} names no file for its measurements",
            fix="set profile: measurements.json in its target, and commit that file",
            exit_code=2,
        )
    lines: list[str] = []
    for file, builds in files_of(engine).items():
        found = read_measurements(Path(file))
        for one in builds:
            entries, said = _of_build(engine, one, found)
            found = found.with_entries(entries)
            lines += said
        if is_whole:
            found = current(engine, builds, found)
        write_if_changed(Path(file), codec.encode(found), engine.unfinished)
    return lines


def _of_build(
    engine: Engine, one: Build, found: Measurements
) -> tuple[tuple[Measurement, ...], list[str]]:
    """Measure the kernels of one build that are not known, equal ones once."""
    profile, costs = profile_of(engine, one), costs_of(engine, one)
    wanted: dict[str, str] = {}
    for name in missing(profile, costs):
        signature = costs.of[name].signature
        if signature not in found.of:
            wanted.setdefault(signature, name)
    if not wanted:
        return (), [f"{one.label}: nothing to measure"]
    graph = codec.decode(engine.content(one, "graph"), Graph)
    made = _trial(engine, one, graph, profile, tuple(wanted.values()))
    entries = tuple(
        Measurement(
            one.target, about(profile.kernel[name], graph), signature, made.unit, made.costs[name]
        )
        for signature, name in wanted.items()
    )
    of = found.with_entries(entries).of
    total = sum(of[c.signature].cost for c in costs.kernels if c.signature in of)
    code = [k for k in profile.kernels if k.alias is None]
    return entries, list(trial_text(one.label, made, len(code) - len(wanted), total))


def _trial(
    engine: Engine, one: Build, graph: Graph, profile: Profile, wanted: tuple[str, ...]
) -> Trial:
    recipe = engine.keys.recipe
    target, folder = recipe.targets[one.target], path_of(engine.out, one, "header").parent
    book = book_of(recipe.folders)
    built = plain_plan(one.model, graph, profile, book, target, one.options, folder)
    numbers = weights.decode(engine.content(one, "weights"))
    sample = samples_of(recipe.models[one.model].samples, graph)[0].inputs
    return trial(built, numbers, wanted, sample, engine.out / STATE_FOLDER)


def _graph_of(engine: Engine, one: Build) -> ProfileGraph:
    schedule = codec.decode(engine.content(one, "schedule"), Schedule)
    graph = codec.decode(engine.content(one, "graph"), Graph)
    tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
    return profile_graph(graph, profile_of(engine, one), costs_of(engine, one), tiles, schedule)
