"""Weights to the C of their tables."""

from collections.abc import Mapping

from dlbuild.base.digest import sha256
from dlbuild.build.job import Job
from dlbuild.ir import weights
from dlbuild.stages.table_plan import decode
from dlbuild.stages.table_text import table_files


def run(job: Job) -> Mapping[str, bytes]:
    """Make the tables."""
    content = job.inputs["weights"]
    plan = decode(job.inputs["table_plan"])
    source, binary = table_files(plan, weights.decode(content), sha256(content))
    return {"weights_source": source, "weights_binary": binary}
