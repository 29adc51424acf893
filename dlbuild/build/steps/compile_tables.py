"""The C of the weight tables to its object."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.run.compile import compile_file


def run(job: Job) -> Mapping[str, bytes]:
    """Compile `<model>_weights.c`."""
    settings = job.settings
    name = settings.model
    binary = job.inputs["weights_binary"]
    made = compile_file(
        f"{name}_weights.c",
        {
            f"{name}_weights.c": job.inputs["weights_source"],
            f"{name}.h": job.inputs["header"],
            f"{name}_weights.h": job.inputs["weights_header"],
            **({f"{name}_weights.bin": binary} if binary else {}),
        },
        settings.target,
        settings.options,
        f"{name}@{settings.target.name}",
        has_code=False,
    )
    return {"weights_object": made.content}
