"""Programs that run the generated C on given inputs: the whole model, or each kernel alone.

A program includes the generated source, so that it reaches what is static there: it overwrites the
arena before each run, and puts a kernel's inputs where the schedule has them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from dlbuild.base.paths import builtin_folder
from dlbuild.emit.ctypes import storage, units
from dlbuild.emit.literals import chunks, text
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph, Tensor
from dlbuild.ir.merged import NOT_MERGED, MergedFunctions
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule, Step
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import NO_TILES, TilePlan
from dlbuild.ir.weights import Array, dtype_name, loaded, stored
from dlbuild.rulebook.load import RuleBook
from dlbuild.run.dead import dead_after
from dlbuild.run.runner_program import Runnable
from dlbuild.stages.arena import CALLER, NEAR, Places, arenas
from dlbuild.stages.declaration import fetching, parameters
from dlbuild.stages.functions import Functions, functions
from dlbuild.stages.image_layout import image_layout
from dlbuild.stages.interface import Port
from dlbuild.stages.merging import with_merged
from dlbuild.stages.sources import Sources, sources

Values = Mapping[str, Array]


@dataclass(frozen=True)
class Built:
    """A model as it was built. name: prefix of its C names. folder: where its C files are."""

    name: str
    graph: Graph
    profile: Profile
    schedule: Schedule
    book: RuleBook
    target: Target
    options: Options
    folder: Path
    tiles: TilePlan = NO_TILES
    merged: MergedFunctions = NOT_MERGED

    @cached_property
    def model(self) -> Sources:
        """What its C files share."""
        return sources(
            self.graph,
            self.profile,
            self.book,
            self.target,
            self.options,
            self.name,
            self.tiles,
        )

    def ports(self, *, is_honest: bool) -> tuple[Path, ...]:
        """Return the C files of the port that its kernels need: one that tests, or one that copies.

        is_honest: for programs that run on this machine.
        """
        if self.target.resources[1] > 1:
            return (self.folder / "dlb_port_cores.c",)
        if not self.tiles.tilings:
            return ()
        if is_honest:
            return (builtin_folder() / "templates" / "port" / "dlb_port_honest.c",)
        return (self.folder / "dlb_port_memcpy.c",)

    def tables(self, work: Path) -> tuple[Path, ...]:
        """Return the C files of its numbers; of an image one is written into the folder `work`."""
        return (self.folder / f"{self.name}_weights.c", *self.images(work))

    def images(self, work: Path) -> tuple[Path, ...]:
        """Return the C file that holds its image of weights, if it has one; written into `work`."""
        if self.options.weights != "image":
            return ()
        content = (self.folder / f"{self.name}_image.bin").read_bytes()
        align_bytes = image_layout(self.model).align_bytes
        path = work / f"{self.name}_image.c"
        path.write_text(linked_image(content, align_bytes), encoding="ascii")
        return (path,)

    @cached_property
    def functions(self) -> Functions:
        """The functions that compute, as its C has them."""
        apart = functions(self.model, self.schedule, self.places, self.tiles)
        return with_merged(self.model, apart, self.tiles, self.merged.merged)

    @cached_property
    def places(self) -> Places:
        """Where its tensors lie in C."""
        return Places(self.graph, self.schedule, self.model.face, self.options)


def linked_image(content: bytes, align_bytes: int) -> str:
    """Return C that holds an image of weights, for programs that dlbuild runs."""
    shape = chunks(len(content))
    return f"""\
/* An image of weights as part of a program. */
const void *program_image(void);

__attribute__((aligned({align_bytes})))
static const unsigned char image[{shape.rows}][{shape.columns}] = {text(content)};

const void *program_image(void)
{{
    return image;
}}
"""


@dataclass(frozen=True, slots=True)
class _Variable:
    """A C array that the program owns."""

    name: str
    ctype: str
    count: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies, as a C expression, and how many bytes it takes."""

    pointer: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _LayerStep:
    """What the program does for one step."""

    number: int
    kernel: str
    reads: tuple[_Place, ...]
    writes: tuple[_Place, ...]
    call: str


def model_program(
    built: Built, *, is_linked: bool = False, is_honest: bool = False, kills_dead: bool = False
) -> str:
    """Return the text of the program that runs the whole model.

    is_linked: the model is in an archive; else the program includes its source, so that it can
    overwrite the arena between runs. What is sent of state is then left aside: each run begins with
    what the model has at first.
    is_honest: the port of its kernels tests them, and counts the bytes that they copy.
    kills_dead: the plan has a hook, which overwrites what no later step may read.
    """
    # On several cores another one may still read what is dead for this one.
    is_alone = built.target.resources[1] == 1
    kills_dead = kills_dead and built.options.hook and not is_linked and is_alone
    user = {"caller": "arena", "static": "&arena"}.get(_arena_kind(built), "NULL")
    ports = built.model.face.ports
    made = [p for p in ports if not p.is_input]
    if is_linked:
        made = [p for p in made if p.tensor.name not in built.graph.carried]
    context = {
        "inputs": [_port(built, p, is_linked=is_linked) for p in ports if p.is_input],
        "outputs": [_port(built, p, is_linked=is_linked) for p in made],
        "resets": is_linked and bool(built.graph.states),
        "arguments": _arguments(built, user if kills_dead else "NULL"),
        "user": user if kills_dead else "NULL",
        "dead": list(dead_after(built.schedule)) if kills_dead else [],
        "is_streamed": built.options.input == "streamed",
        "is_pipeline": built.graph.clusters.is_stream,
        "fetch": fetching(built.model, built.tiles.strips),
        "is_poisoned": not is_linked,
        "is_honest": is_honest and bool(built.tiles.tilings),
        "traffic_bytes": sum(tiling.moved_bytes for tiling in built.tiles.tilings),
    }
    return _render(built, "runner/run.c.j2", context, "h" if is_linked else "c")


def trial_program(built: Built, wanted: Sequence[str]) -> str:
    """Return the text of the program that measures the wanted kernels in whole runs.

    The plan has a hook. The region of step n is n + 1.
    """
    ports = built.model.face.ports
    regions = {step.number: step.number + 1 for step in code_steps(built) if step.kernel in wanted}
    # The hook is called behind steps with code; a step without takes no time.
    numbers = [step.number for step in code_steps(built)]
    following = dict(pairwise(numbers))
    context = {
        "inputs": [_port(built, p, is_linked=False) for p in ports if p.is_input],
        "outputs": [_port(built, p, is_linked=False) for p in ports if not p.is_input],
        "arguments": _arguments(built),
        "first": regions.get(numbers[0], 0) if numbers else 0,
        "next": [regions.get(following.get(step.number, -1), 0) for step in built.schedule.steps],
    }
    return _render(built, "runner/trial.c.j2", context)


def layer_program(built: Built, steps: Sequence[Step]) -> str:
    """Return the text of the program that runs each of some steps alone."""
    calls = built.functions.calls
    alone = [
        _LayerStep(
            number=step.number,
            kernel=step.kernel,
            reads=tuple(_place(built, name) for name in reads_of(built, step)),
            writes=tuple(_place(built, name) for name in writes_of(built, step)),
            call=" ".join(f"{call.text};" for call in calls.values() if _is_of(call.step, step)),
        )
        for step in steps
    ]
    variables = [_variable(port, "") for port in built.model.face.ports]
    return _render(built, "runner/layers.c.j2", {"ports": variables, "steps": alone})


def code_steps(built: Built) -> tuple[Step, ...]:
    """Return the steps that call a function of their own; those of strips run together.

    Of a kernel that is divided among cores, the first.
    """
    steps = built.schedule.steps
    return tuple(step for step in steps if step.is_code and not step.strip and not step.tile)


def _is_of(step: Step, first: Step) -> bool:
    """Say whether a step is of the same kernel."""
    return step.kernel == first.kernel


def reads_of(built: Built, step: Step) -> tuple[str, ...]:
    """Return the activations that a step reads, each once."""
    constants = frozenset(built.graph.constants)
    reads = built.profile.kernel[step.kernel].reads
    return tuple(name for name in dict.fromkeys(reads) if name not in constants)


def writes_of(built: Built, step: Step) -> tuple[str, ...]:
    """Return the activations that a step writes."""
    return built.profile.kernel[step.kernel].writes


def run_model(
    built: Built, program: Runnable, samples: Sequence[Values], n_runs: int
) -> tuple[tuple[Values, ...], ...]:
    """Return the outputs of each run of each sample.

    Args:
        built: the model.
        program: compiled from `model_program`.
        samples: a value for each input of the model.
        n_runs: how often each sample is run.
    """
    received = program.run(run_input(built, samples, n_runs))
    reader = _Reader(built, received)
    return tuple(tuple(reader.take(built.graph.outputs) for _ in range(n_runs)) for _ in samples)


def run_input(built: Built, samples: Sequence[Values], n_runs: int) -> bytes:
    """Return what a program of `model_program` is sent."""
    sent = [_counts(len(samples), n_runs)]
    for values in samples:
        sent += n_runs * [memory_bytes(built, n, values[n]) for n in built.graph.inputs]
    return b"".join(sent)


def _counts(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def run_layers(
    built: Built, program: Runnable, steps: Sequence[Step], samples: Sequence[Values]
) -> dict[int, tuple[Values, ...]]:
    """Return what each step writes for each sample, given the values of what it reads.

    Args:
        built: the model.
        program: compiled from `layer_program` of the same steps.
        steps: what it runs.
        samples: a value for each activation that any step reads.
    """
    sent = [_counts(len(samples))]
    sent += [
        memory_bytes(built, name, values[name])
        for step in steps
        for values in samples
        for name in reads_of(built, step)
    ]
    reader = _Reader(built, program.run(b"".join(sent)))
    return {
        step.number: tuple(reader.take(writes_of(built, step)) for _ in samples) for step in steps
    }


def memory_bytes(built: Built, tensor: str, array: Array) -> bytes:
    """Return an array's bytes as they lie in the target's memory."""
    order = built.profile.order_of.get(tensor, ())
    ordered = np.ascontiguousarray(array.transpose(order) if order else array)
    return stored(ordered, dtype_name(array)).tobytes()


class _Reader:
    """Takes tensors, one after the other, from what a program wrote."""

    def __init__(self, built: Built, content: bytes) -> None:
        self._built = built
        self._content = content
        self._at = 0

    def take(self, names: Sequence[str]) -> dict[str, Array]:
        return {name: self._tensor(self._built.graph.tensor[name]) for name in names}

    def _tensor(self, tensor: Tensor) -> Array:
        last = self._at + _size_bytes(tensor)
        flat = loaded(self._content[self._at : last], tensor.dtype, tensor.count)
        self._at = last
        order = self._built.profile.order_of.get(tensor.name, ())
        if not order:
            return flat.reshape(tensor.shape)
        stored = flat.reshape([tensor.shape[axis] for axis in order])
        return stored.transpose(np.argsort(order))


def _render(built: Built, template: str, context: Mapping[str, object], suffix: str = "c") -> str:
    rooms = [room.name for room in arenas(built.graph, built.schedule) if room.members]
    common = {
        "name": built.name,
        "source": f"{built.name}.{suffix}",
        "arena": _arena_kind(built),
        "arenas": rooms,
        "hook": built.options.hook,
        "near": NEAR[: len(built.schedule.near)],
        "cores": built.target.resources[1],
        "is_image": built.options.weights == "image",
    }
    return built.model.environment.get_template(template).render({**common, **context})


def _arena_kind(built: Built) -> str:
    """Return whose arena there is: `static`, `caller`, or none. The caller's may be empty."""
    rooms = arenas(built.graph, built.schedule)
    if built.options.arena == "caller" or any(room.members for room in rooms):
        return built.options.arena
    return ""


def _arguments(built: Built, user: str = "NULL") -> list[str]:
    """Return what the program hands to the run function, in its order."""
    own = {port.name: f"dlb_{port.name}" for port in built.model.face.ports}
    own |= {"user": user, "fetch": "dlb_fetch"}
    return [own.get(p.name, p.name) for p in parameters(built.model, built.schedule)]


def _port(built: Built, port: Port, *, is_linked: bool) -> dict[str, object]:
    """A port in the caller's memory is a variable of the program, one in the arena is there."""
    variable, name = _variable(port, "dlb_"), port.tensor.name
    is_streamed = port.is_input and built.options.input == "streamed"
    is_aside = is_linked and name in built.graph.carried
    is_callers = is_streamed or is_aside or built.schedule.buffer[name].memory == CALLER
    place = _Place(variable.name, _size_bytes(port.tensor)) if is_callers else _place(built, name)
    if is_linked and not is_callers:
        given = "arena" if built.options.arena == "caller" else ""
        place = replace(place, pointer=f"{built.name}_{port.name}({given})")
    return {"is_callers": is_callers, "variable": variable, "place": place}


def _variable(port: Port, prefix: str) -> _Variable:
    ctype = storage(port.tensor.dtype)
    return _Variable(prefix + port.name, ctype, units(port.tensor.dtype, port.tensor.count))


def _place(built: Built, name: str) -> _Place:
    return _Place(built.places.pointer(name), _size_bytes(built.graph.tensor[name]))


def _size_bytes(tensor: Tensor) -> int:
    return DTYPES[tensor.dtype].size_bytes(tensor.count)
