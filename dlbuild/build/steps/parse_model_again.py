"""As `parse_again`, of a model that is then spread over clusters."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps import parse_again

_PREFIX = "model_"


def run(job: Job, before: Mapping[str, bytes]) -> Mapping[str, bytes] | None:
    """Return what `parse_model` would make; None if only it can tell."""
    plain = {name.removeprefix(_PREFIX): content for name, content in before.items()}
    made = parse_again.run(job, plain)
    return None if made is None else {f"{_PREFIX}{name}": made[name] for name in made}
