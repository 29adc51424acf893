"""The C source to its object."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.run.compile import compile_file


def run(job: Job) -> Mapping[str, bytes]:
    """Compile `<model>.c`."""
    settings = job.settings
    name = settings.model
    made = compile_file(
        f"{name}.c",
        {
            f"{name}.c": job.inputs["source"],
            f"{name}.h": job.inputs["header"],
            f"{name}_weights.h": job.inputs["weights_header"],
            "dlb_port.h": job.inputs["port_header"],
        },
        settings.target,
        settings.options,
        f"{name}@{settings.target.name}",
    )
    return {"object": made.content, "call_graph": made.call_graph.encode()}
