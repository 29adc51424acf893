"""Profile to the cost of each kernel, by the measurement file that the build names."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.costs import Measurements
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.run.compile import code_flags
from dlbuild.run.toolchain import identify
from dlbuild.stages.costs import costs, signatures
from dlbuild.stages.predicted import predicted


def run(job: Job) -> Mapping[str, bytes]:
    """Look up what is known."""
    settings = job.settings
    profile = codec.decode(job.inputs["profile"], Profile)
    if settings.measurements is None:
        return {"costs": codec.encode(predicted(profile))}
    target, options = settings.target, settings.options
    known = signatures(
        codec.decode(job.inputs["graph"], Graph),
        profile,
        book_of(settings.folders),
        target,
        options,
        made_by={
            "compiler": identify(target.toolchain.cc),
            "flags": " ".join(code_flags(target, options)),
            "runner": target.runner,
        },
    )
    file = settings.measurements
    measured = Measurements()
    if file.is_file():
        measured = codec.decode(file.read_bytes(), Measurements, file.as_posix())
    return {"costs": codec.encode(costs(profile, known, measured, target.name))}
