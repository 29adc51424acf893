"""What the objects take of flash and RAM, and the stack of a run."""

from collections.abc import Mapping

from dlbuild.base.errors import UserError
from dlbuild.base.units import bytes_text
from dlbuild.build.job import Job
from dlbuild.build.sizes import Sizes, encode_sizes
from dlbuild.ir.image import layout_of
from dlbuild.ir.target import Target
from dlbuild.run.size import sizes_of, total
from dlbuild.run.stack import Stack, worst_stack
from dlbuild.run.stack_code import code_functions


def run(job: Job) -> Mapping[str, bytes]:
    """Measure the objects; refuse a stack that is deeper than the target says."""
    name, target = job.settings.model, job.settings.target
    objects = {
        f"{name}.o": job.inputs["object"],
        f"{name}_weights.o": job.inputs["weights_object"],
    }
    whole = total(list(sizes_of(objects, target).values()))
    stack = _stack(f"{name}_run", objects, job.inputs["call_graph"].decode(), target)
    if stack is not None:
        _check_stack(name, target, stack)
    layout = layout_of(job.inputs["image_layout"])
    sizes = Sizes(
        text_bytes=whole.text,
        rodata_bytes=whole.rodata,
        data_bytes=whole.data,
        bss_bytes=whole.bss,
        flash_bytes=whole.flash_bytes,
        stack_bytes=stack.size_bytes if stack else None,
        stack_without=stack.unknown if stack else (),
        image_bytes=layout.size_bytes if layout else 0,
    )
    return {"size": encode_sizes(sizes)}


def _stack(
    start: str, objects: Mapping[str, bytes], call_graph: str, target: Target
) -> Stack | None:
    """Follow the compiler's call graph; what it does not know is read from the machine code."""
    stack = worst_stack(call_graph, start)
    if stack is not None and not stack.unknown:
        return stack
    return worst_stack(call_graph, start, code_functions(objects, start, target))


def _check_stack(name: str, target: Target, stack: Stack) -> None:
    if target.stack_bytes is not None and stack.size_bytes > target.stack_bytes:
        raise UserError(
            f"a run needs {bytes_text(stack.size_bytes)} of stack, "
            f"the target has {bytes_text(target.stack_bytes)}",
            where=f"{name}@{target.name}",
            details=(" -> ".join(stack.path),),
            fix=f"set stack: {stack.size_bytes} B",
        )
