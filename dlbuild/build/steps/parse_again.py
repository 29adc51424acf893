"""A model file with other numbers to weights, by what parse did before: without onnx, or rules."""

from collections.abc import Mapping

from dlbuild.base.files import read
from dlbuild.build.job import Job
from dlbuild.stages.rederive import rederived


def run(job: Job, before: Mapping[str, bytes]) -> Mapping[str, bytes] | None:
    """Return what `parse` would make; None if only it can tell.

    before: the files that it made of another model file, all else being the same.
    """
    model = read(job.settings.source)
    if model is None or not before["derivation"]:
        return None
    numbers = rederived(before["derivation"], model, before["weights"])
    return None if numbers is None else {**before, "weights": numbers}
