"""The body of `<m>_run`: one commented call a line."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.emit.comments import block, extents, filled, quoted
from dlbuild.ir.profile import Kernel
from dlbuild.ir.schedule import Schedule, Step
from dlbuild.stages.declaration import parameters
from dlbuild.stages.functions import Call, Functions
from dlbuild.stages.sources import Sources

_MARGIN = "    "


@dataclass(frozen=True, slots=True)
class StripCall:
    """The call that runs all steps of a strip."""

    function: str
    arguments: tuple[str, ...]


def body(
    model: Sources, schedule: Schedule, kernels: Functions, strips: Mapping[int, StripCall]
) -> list[str]:
    """Return the lines of the schedule, the calls of steps without code as comments."""
    lines: list[str] = []
    used: set[str] = set()
    for position, step in enumerate(schedule.steps):
        kernel = model.profile.kernel[step.kernel]
        call: Call | StripCall | None = kernels.calls.get(step.number)
        if step.strip:
            rest = schedule.steps[position + 1 :]
            if step.strip not in strips or any(s.strip == step.strip for s in rest):
                continue
            call = strips[step.strip]
            lines.append(_strip_comment(schedule, step))
        elif call is None:
            lines.append(_comment(step, kernel, model, _alias(kernel)))
            continue
        else:
            lines.append(step_comment(model, step))
        lines.append(filled(f"{_MARGIN}{call.function}(", call.arguments, ");"))
        used.update(word.lstrip("&").split("[")[0] for word in call.arguments)
        if model.options.hook:
            condition = f"{model.face.prefix}_hook({step.number}U, user) != 0"
            lines += [
                f"{_MARGIN}if ({condition}) {{",
                f"{_MARGIN * 2}return {model.face.macro}_ABORTED;",
                f"{_MARGIN}}}",
            ]
    return [*unused(model, schedule, used), *lines]


def _strip_comment(schedule: Schedule, last: Step) -> str:
    steps = [step.number for step in schedule.steps if step.strip == last.strip]
    return block(f"{steps[0]} to {steps[-1]} row by row", _MARGIN)


def unused(model: Sources, schedule: Schedule, used: set[str]) -> list[str]:
    """Return a line for each parameter that no step reads, which compilers would warn of."""
    used = used | {word.split("->")[0] for word in used if "->" in word}
    names = [a.name for a in parameters(model, schedule) if a.name not in (*used, "user")]
    return [f"{_MARGIN}(void){name};" for name in names]


def step_comment(model: Sources, step: Step, margin: str = _MARGIN, part: str = "") -> str:
    """Return the comment that says what a step with code computes. part: which tile, if one."""
    kernel = model.profile.kernel[step.kernel]
    return _comment(step, kernel, model, _work(kernel, model) + part, margin)


def _comment(step: Step, kernel: Kernel, model: Sources, rest: str, margin: str = _MARGIN) -> str:
    ops = {op.name: op for op in model.graph.ops}
    kinds = " + ".join(ops[name].kind for name in kernel.ops)
    return block(f"{step.number} {kinds} {quoted(kernel.anchor)}{rest}", margin)


def _work(kernel: Kernel, model: Sources) -> str:
    """Return shapes of the activations and the work: ` [1][4] -> [1][2], 8 MACs`."""
    tensor = model.graph.tensor
    sources = ", ".join(extents(tensor[name].shape) for name in kernel.reads) or "constants"
    results = ", ".join(extents(tensor[name].shape) for name in kernel.writes)
    macs = f", {kernel.macs:,} MACs" if kernel.macs else ""
    return f" {sources} -> {results}{macs}"


def _alias(kernel: Kernel) -> str:
    """Return why a step has no code."""
    assert kernel.alias is not None
    return f": no code, a view of {quoted(kernel.alias.source, 40)}"
