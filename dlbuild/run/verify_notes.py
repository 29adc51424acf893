"""What the user should know of a build beside how near its results are."""

from collections.abc import Iterator

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.profile import Kernel
from dlbuild.rulebook.derive import step_values
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.value import COMPUTE_TYPE, walk
from dlbuild.run.runner import Built

_NARROW_BITS = 16


def notes_of(built: Built) -> Iterator[str]:
    """Yield what parse assumed, and which kernels do not round as the recipe asks."""
    yield from built.graph.notes
    if built.options.requantize != "fixed":
        return
    kernels = [k for k in built.profile.kernels if k.alias is None]
    names = [k.name for k in kernels if _is_rounded_in_floats(built, k)]
    if names:
        yield (
            "requantize is fixed, but no rule rounds in integers what these kernels compute"
            f" (scales that only the run knows, functions of reals, a template): {', '.join(names)}"
        )


def _is_rounded_in_floats(built: Built, kernel: Kernel) -> bool:
    """Say whether a kernel goes from narrow integers to narrow integers through floats."""
    tensors = built.graph.tensor
    if not all(
        any(_is_narrow(tensors[name].dtype) for name in names)
        for names in (kernel.reads, kernel.writes)
    ):
        return False
    return any(kind in ("f32", "f64") for kind in _kinds(built.model.instances[kernel.name]))


def _is_narrow(dtype: str) -> bool:
    return DTYPES[dtype].kind in ("int", "uint") and DTYPES[dtype].bits <= _NARROW_BITS


def _kinds(instance: Instance) -> Iterator[str]:
    """Yield the types in which an instance computes: its steps, or a template of its operands."""
    if not instance.nests:
        yield from (COMPUTE_TYPE[operand.dtype] for operand in instance.operands)
    for nest in instance.nests:
        for step in nest.steps:
            for value in step_values(step):
                yield from (getattr(expr, "type", "") for expr in walk(value))
