"""Files for the build around ours."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.ir.target import is_tiled
from dlbuild.run.fragments import cmake_fragment, make_fragment


def run(job: Job) -> Mapping[str, bytes]:
    """Write the fragments; they name files only, so they need no input."""
    name = job.settings.model
    target = job.settings.target
    ports = ["dlb_port_memcpy.c"] if is_tiled(target.memories) else []
    ports += ["dlb_port_cores.c"] if target.resources[1] > 1 else []
    options = job.settings.options
    images = [f"{name}_image.bin"] if options.weights == "image" else []
    images += [f"{name}_image.hex"] if images and options.image_address is not None else []
    return {
        "make": make_fragment(name, ports, images).encode(),
        "cmake": cmake_fragment(name, ports, images).encode(),
    }
