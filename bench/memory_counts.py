"""Instructions of a run of a network: on this machine, and on an emulated Cortex-M4F."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from models import host

from dlbuild.base.paths import builtin_folder
from dlbuild.build.targets import TargetBook, read_target_files, target_files
from dlbuild.ir.target import Target
from dlbuild.run.bench import called_steps
from dlbuild.run.board import BoardMaker, BoardProgram
from dlbuild.run.callgrind import instructions
from dlbuild.run.counter import counter
from dlbuild.run.lines import Said
from dlbuild.run.runner import Built, Values, model_program, run_input, run_model
from dlbuild.run.runner_program import Compiler, compile_program

CORE = "cortex-m4f"
EXTERNAL = ('-DMODEL_WEIGHTS_SECTION=__attribute__((section(".psram")))',)
"""Flags that place weights in the section of the board's external RAM."""

FLAGS = ("-O2",)


def plain_host() -> Target:
    """Return this machine without its hand-written kernels: what is counted is loops."""
    target = host()
    return replace(target, features=tuple(f for f in target.features if f != "x86"))


def core() -> Target:
    """Return the built-in target of the emulated core, whose kernels are hand-written.

    Weights lie in the external RAM of its board: those of some networks exceed its other memories.
    """
    files = target_files((builtin_folder(),))
    target = TargetBook({}, read_target_files(files, Path.as_posix)).resolve(CORE).target
    tools = target.toolchain
    return replace(target, toolchain=replace(tools, cflags=(*tools.cflags, *EXTERNAL)))


def on_host(built: Built, samples: Sequence[Values]) -> int:
    """Return the instructions of one run at -O2; 0 without valgrind.

    The model is compiled apart, so that its run is not a part of what calls it.
    """
    work, sources = _places(built, "count")
    text = model_program(built, is_linked=True)
    program = compile_program(text, "run", sources, Compiler("gcc", FLAGS), work)
    said = instructions(program, built.name, run_input(built, samples, 1), work)
    return sum(count.value for count in said.counts) if said else 0


def kernels_on_host(built: Built, sample: Values) -> dict[str, int]:
    """Return the instructions of each kernel of a run layer by layer, with a hook between them.

    Empty without valgrind.
    """
    work, (_, tables) = _places(built, "kernels")
    program = compile_program(model_program(built), "run", [tables], Compiler("gcc", FLAGS), work)
    return _by_kernel(built, instructions(program, built.name, run_input(built, [sample], 1), work))


def on_core(built: Built, sample: Values) -> tuple[int, list[list[Values]]]:
    """Return the instructions of one run on the emulated core, and its outputs.

    Raises:
        UserError: there is no such compiler or emulator, or the network does not fit the board.
    """
    work, sources = _places(built, "core")
    text = model_program(built, is_linked=True)
    maker = BoardMaker(built.target, built.options)
    counting = _Counting(maker.program(text, "run", sources, work), counter(work))
    outputs = run_model(built, counting, [sample], 1)
    return counting.count, [list(runs) for runs in outputs]


def kernels_on_core(built: Built, sample: Values) -> dict[str, int]:
    """Return the instructions of each kernel of a run layer by layer, with a hook between them.

    Raises:
        UserError: see `on_core`.
    """
    work, (_, tables) = _places(built, "core-kernels")
    maker = BoardMaker(built.target, built.options)
    program = maker.program(model_program(built), "run", [tables], work)
    plugin = ["-plugin", f"file={counter(work)}"]
    return _by_kernel(built, program.converse(run_input(built, [sample], 1), plugin))


def _places(built: Built, name: str) -> tuple[Path, tuple[Path, Path]]:
    """Return a new folder, and the files of the network and of its weights."""
    work = built.folder / name
    work.mkdir(exist_ok=True)
    return work, (built.folder / f"{built.name}.c", built.folder / f"{built.name}_weights.c")


def _by_kernel(built: Built, said: Said | None) -> dict[str, int]:
    calls = called_steps(built.schedule)
    # Behind the hook of the last step the run returns: one more, which is of no step.
    values = [count.value for count in said.counts[: len(calls)]] if said else []
    return {steps[0].kernel: value for steps, value in zip(calls, values, strict=bool(values))}


@dataclass
class _Counting:
    """A program for the emulator, and the instructions of its last run."""

    program: BoardProgram
    plugin: Path
    count: int = 0

    def run(self, sent: bytes) -> bytes:
        """See Runnable."""
        said = self.program.converse(sent, ["-plugin", f"file={self.plugin}"])
        self.count = sum(count.value for count in said.counts)
        return bytes(said.content)
