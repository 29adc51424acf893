"""A build in which nothing but the numbers of models changed."""

import signal
from pathlib import Path

from dlbuild.build.marks import Marks
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.replay import keep_for_replay
from dlbuild.build.request import value_of
from dlbuild.build.retrain import retrain
from dlbuild.cli.events import Events, form_of
from dlbuild.cli.terminate import terminate


def retrained(
    arguments: list[str], request: list[str], out: str, started_ns: int, changed: list[str]
) -> bool:
    """Build what follows from other numbers, if that is all there is to do.

    changed: the models that changed.
    """
    signal.signal(signal.SIGTERM, terminate)
    events = Events(form_of(is_json="--json" in request))
    pipeline = PIPELINE.of_sources if "--sources" in request else PIPELINE
    engine = retrain(Path(out), request, pipeline, changed, events.finished)
    if engine is None:
        return False
    marks = Marks(value_of(arguments, "--stamp"), value_of(arguments, "--depfile"))
    if not marks.renew(out, request, started_ns):
        return False
    events.ended(path.as_posix() for path in sorted(engine.rewritten))
    keep_for_replay(engine.out, request, engine.store)
    return True
