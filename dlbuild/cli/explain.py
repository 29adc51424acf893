"""`dlbuild explain`: why each stage ran last time, and what would run now."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from dlbuild.build.cache import open_store
from dlbuild.build.engine import Engine
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.forecast import Forecast, forecast
from dlbuild.build.keys import KeyMaker
from dlbuild.build.ledger import LEDGER, Ledger, read_ledger
from dlbuild.build.pipeline import PIPELINE, with_verify
from dlbuild.build.stage import Pipeline
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import add_targets, asked_targets, selected, whole_recipe
from dlbuild.report.text import forecast_text
from dlbuild.run.toolchain import identify


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--all", action="store_true", help="also what the last build that made anything left alone"
    )


def _known(ledger: Ledger) -> Pipeline:
    """Return the stages of a build, and those of verify that have run here."""
    used = {stage for stages in ledger.records.values() for stage in stages}
    verifies = (with_verify(layers=layers).stages[-1] for layers in (False, True))
    more = tuple(stage for stage in verifies if stage.name in used)
    return Pipeline((*PIPELINE.stages, *more), PIPELINE.gates)


def run(given: argparse.Namespace) -> int:
    """Print it; nothing runs."""
    found, number = foreseen(given)
    if given.json:
        rows = {label: [asdict(line) for line in lines] for label, lines in found.items()}
        print(json.dumps({"builds": number, "stages": rows}, indent=2))
        return 0
    print("\n".join(forecast_text(found, number, is_whole=given.all)))
    return 0


def foreseen(
    given: argparse.Namespace, pipeline: Pipeline | None = None
) -> tuple[dict[str, tuple[Forecast, ...]], int]:
    """Return what would happen to each stage of each build, and how many builds there were.

    pipeline: its stages; None = those of a build, and those of verify that have run here.
    """
    recipe = selected(whole_recipe(given), asked_targets(given))
    out = Path(given.out)
    ledger = read_ledger(out / STATE_FOLDER / LEDGER)
    store = open_store(out / STATE_FOLDER)
    engine = Engine(KeyMaker(recipe, identify), store, ledger, out, lambda _: None)
    stages = pipeline or _known(ledger)
    found = {one.label: tuple(forecast(engine, stages, one)) for one in recipe.builds}
    return found, ledger.number
