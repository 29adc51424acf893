"""The C against the model."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from dlbuild.build.job import Job
from dlbuild.build.steps import parse
from dlbuild.build.steps.built import built_from
from dlbuild.ir import codec, weights
from dlbuild.run.samples import samples_of
from dlbuild.run.verify import Checks, verify
from dlbuild.run.verify_compare import Tolerance

files = parse.files


def run(job: Job) -> Mapping[str, bytes]:
    """Verify the outputs."""
    return compare(job, layers=False)


def compare(job: Job, *, layers: bool) -> Mapping[str, bytes]:
    """Verify the outputs, and each kernel alone if `layers`."""
    settings = job.settings
    name, said = settings.model, settings.tolerance
    numbers = weights.decode(job.inputs["weights"])
    with tempfile.TemporaryDirectory(prefix="dlbuild-") as work:
        folder = Path(work)
        for suffix, file in _FILES.items():
            (folder / f"{name}{suffix}").write_bytes(job.inputs[file])
        for file, content in _PORT.items():
            (folder / file).write_bytes(job.inputs[content])
        built = built_from(settings, job.inputs.__getitem__, folder)
        verdict = verify(
            built,
            numbers,
            settings.source,
            samples_of(settings.samples, built.graph, numbers),
            Checks(layers, Tolerance(said.rtol, said.atol, said.lsb)),
        )
    return {"verdict": codec.encode(verdict)}


_PORT = {
    "dlb_port.h": "port_header",
    "dlb_port_memcpy.c": "port_source",
    "dlb_port_cores.c": "cores_source",
}
_FILES = {
    ".c": "source",
    ".h": "header",
    "_weights.c": "weights_source",
    "_weights.h": "weights_header",
    "_weights.bin": "weights_binary",
    "_image.bin": "image",
}
