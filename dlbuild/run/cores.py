"""What programs of several cores are compiled with."""

from dlbuild.ir.target import Target


def core_flags(target: Target) -> tuple[str, ...]:
    """Return the flags of programs that run a model on several cores of a target."""
    _, count = target.resources
    if count == 1:
        return ()
    flags = (f"-DBOARD_CORES={count}", f"-DDLB_CORES={count}")
    if not target.runner:
        return (*flags, "-pthread")
    return (*flags, "-DDLB_COUNTED") if "{count}" in target.runner else flags
