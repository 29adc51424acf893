"""Weights to the C of their tables, or to an image of them."""

from collections.abc import Mapping

from dlbuild.base.digest import sha256
from dlbuild.build.job import Job
from dlbuild.ir import weights
from dlbuild.stages.image import image_files
from dlbuild.stages.table_plan import decode
from dlbuild.stages.table_text import table_files


def run(job: Job) -> Mapping[str, bytes]:
    """Make the tables."""
    content = job.inputs["weights"]
    plan = decode(job.inputs["table_plan"])
    numbers, digest = weights.decode(content), sha256(content)
    source, binary = table_files(plan, numbers, digest)
    options = job.settings.options
    image, text = image_files(plan, numbers, digest, options.image_version, options.image_address)
    return {
        "weights_source": source,
        "weights_binary": binary,
        "image": image,
        "image_hex": text,
    }
