"""`dlbuild build`: bring every file up to date."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.files import read
from dlbuild.build.builder import How, build
from dlbuild.build.engine import Engine
from dlbuild.build.flat import write_flat
from dlbuild.build.marks import Marks
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.replay import keep_for_replay
from dlbuild.build.request import request_of
from dlbuild.build.retrain import keep_order
from dlbuild.build.snapshot import depfile_of, leave_snapshot
from dlbuild.build.stage import Pipeline
from dlbuild.cli.arguments import Parser
from dlbuild.cli.events import Events, form_of
from dlbuild.cli.project import add_jobs, add_targets, asked_targets, selected, whole_recipe
from dlbuild.run.toolchain import identify


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    add_jobs(parser)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("-n", "--dry-run", action="store_true", help="say what would run, and why")
    only.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit status 1 if a build would change a file",
    )
    only.add_argument("--json", action="store_true", help="tell of each stage as a line of JSON")
    parser.add_argument(
        "--sources",
        action="store_true",
        help="make the C and compile nothing: what only a compiler can tell, flash and stack, is "
        "not checked",
    )
    parser.add_argument(
        "--stamp", metavar="FILE", default="", help="after a success, write this for a build around"
    )
    parser.add_argument(
        "--depfile",
        metavar="FILE",
        default="",
        help="write what --stamp depends on, for Make and Ninja",
    )
    parser.add_argument(
        "--goal", metavar="NAME", default="", help="how the depfile names the stamp (default: FILE)"
    )
    parser.add_argument(
        "--flat",
        metavar="DIR",
        default="",
        help="write the C of all models into this folder as well, for builds that know no others",
    )


def run(given: argparse.Namespace) -> int:
    """Build, and leave a snapshot for the no-op check; or only say what a build would do."""
    began_ns = (given.started_ns, time.time_ns())
    _check_marks(given)
    if given.dry_run:
        return _say(given)
    pipeline = pipeline_of(given)
    if given.check:
        return _check(given, pipeline)
    engine = build_all(given, pipeline)
    _say_of_measurements(engine, given)
    request, _ = request_of(list(given.command))
    copies = write_flat(engine, Path(given.flat)) if given.flat else {}
    goal = given.goal or given.stamp
    rule = depfile_of(engine, pipeline, goal) if given.depfile else ""
    Marks(given.stamp, given.depfile).leave(given.out, request, rule, given.started_ns)
    if leave_snapshot(engine, pipeline, request, began_ns, copies):
        keep_for_replay(engine.out, request, engine.store)
        if not given.flat and not given.remote_cache:
            keep_order(engine, pipeline, request)
    return 0


def _check_marks(given: argparse.Namespace) -> None:
    """Refuse what says nothing without another option."""
    if given.depfile and not given.stamp:
        what, fix = "--depfile says what a stamp depends on", "add --stamp FILE"
    elif given.goal and not given.depfile:
        what, fix = "--goal names the stamp in a depfile", "add --depfile FILE"
    else:
        return
    raise UserError(what, where="dlbuild build", fix=fix, exit_code=2)


def _say_of_measurements(engine: Engine, given: argparse.Namespace) -> None:
    """Print which files of measurements are out of date; a build never measures."""
    # Without a compiler nobody knows which compiler's measurements these are.
    if not given.sources and any(one.options.profile for one in engine.keys.recipe.builds):
        from dlbuild.cli.measurements import out_of_date  # noqa: PLC0415 - builds without need it not

        lines = out_of_date(engine, is_whole=not asked_targets(given))
        file = sys.stderr if given.json else sys.stdout
        print("".join(f"{line}\n" for line in lines), end="", file=file)


def pipeline_of(given: argparse.Namespace) -> Pipeline:
    """Return the stages of a build, without those of compilers if --sources says so."""
    return PIPELINE.of_sources if given.sources else PIPELINE


def _say(given: argparse.Namespace) -> int:
    """Print what would run."""
    from dlbuild.cli.explain import foreseen  # noqa: PLC0415 - a build does not need it

    found, _ = foreseen(given, pipeline_of(given))
    lines = [
        f"{label}: {line.stage} ({line.state}{' ' if line.state == 'depends' else ': '}"
        f"{'; '.join(line.reasons)})"
        for label, stages in found.items()
        for line in stages
        if line.state != "up to date"
    ]
    print("\n".join(lines) or "nothing to do")
    return 0


def _check(given: argparse.Namespace, pipeline: Pipeline) -> int:
    """Build elsewhere and print which files here are not as they would be."""
    out = Path(given.out)
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as folder:
        other = argparse.Namespace(**{**vars(given), "out": folder})
        engine = build_all(other, pipeline, quiet=True)
        written = {name for names in engine.ledger.written.values() for name in names}
        # The depfile names the build folder.
        wanted = {name: (Path(folder) / name).read_bytes() for name in written if name[-2:] != ".d"}
    found = {name: read(out / name) for name in wanted}
    faults = [
        f"{(out / name).as_posix()}: {'is missing' if found[name] is None else 'would change'}"
        for name in sorted(wanted)
        if found[name] != wanted[name]
    ]
    print("\n".join(faults) or "every file is as a build would leave it")
    return 1 if faults else 0


def build_all(
    given: argparse.Namespace, pipeline: Pipeline = PIPELINE, *, quiet: bool = False
) -> Engine:
    """Build what was asked for and tell of each stage that needed work.

    quiet: tell it on stderr, since stdout is for a report.
    """
    events = Events(form_of(is_json=not quiet and given.json), quiet=quiet)
    remote = None
    try:
        whole = whole_recipe(given)
        if given.remote_cache:
            from dlbuild.cli.remote import remote_of  # noqa: PLC0415 - 40 ms, and few have one

            remote = remote_of(given)
        current = tuple(one.label for one in whole.builds)
        how = How(Path(given.out), given.jobs, given.keep_going, current, remote)
        asked = selected(whole, asked_targets(given))
        engine = build(asked, pipeline, how, identify, events.finished)
    except (UserError, ExceptionGroup) as error:
        events.failed(_messages(error))
        raise
    finally:
        if remote is not None:
            remote.close()
            for warning in remote.warnings:
                print(f"warning: {warning}", file=sys.stderr)
    events.ended(path.as_posix() for path in sorted(engine.rewritten))
    if engine.store.fault:
        print(
            f"warning: results are not kept for later builds: {engine.store.fault}\n"
            "  fix: make room there, or set DLBUILD_CACHE_DIR to another folder",
            file=sys.stderr,
        )
    return engine


def _messages(error: Exception) -> list[str]:
    """Return each different message once."""
    inner = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    return list(dict.fromkeys(str(one) for one in inner))
