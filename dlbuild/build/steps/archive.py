"""Both objects to one archive."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.run.compile import archive


def run(job: Job) -> Mapping[str, bytes]:
    """Archive."""
    settings = job.settings
    name = settings.model
    objects = {
        f"{name}.o": job.inputs["object"],
        f"{name}_weights.o": job.inputs["weights_object"],
    }
    where = f"{name}@{settings.target.name}"
    return {"archive": archive(f"lib{name}.a", objects, settings.target, where)}
