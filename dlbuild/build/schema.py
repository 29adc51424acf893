"""Every key of dlbuild.yaml, once: the reader checks by it and editors get their schema."""

from dataclasses import replace

from dlbuild.base.units import CLOCK, COST, RATE, SIZE, TIME
from dlbuild.build.kinds import (
    Choice,
    Flag,
    Key,
    ListOf,
    MapOf,
    Quantity,
    Real,
    Record,
    Schema,
    Text,
    Whole,
)
from dlbuild.ir.dtype import DTYPES

_NAME = "(?!dlb(_|$))[a-z][a-z0-9_]*"
_NAME_LIKE = "small letters, digits and _, a letter first; dlb is the port's"
_FILE = Text()
WORD = 2**32 - 1
"""The greatest number of 32 bits."""
_SECTION = Text(r"[A-Za-z0-9_.$]+", "letters, digits, '.', '_' and '$'")

OPTIMIZE = Key(
    "optimize",
    Choice(("speed", "ram", "size")),
    "What to prefer; speed by default. size is flash; see docs/size.md.",
)
REQUANTIZE = Key(
    "requantize",
    Choice(("exact", "fixed")),
    "exact: the ONNX formula to the bit. fixed: integers only, at most 1 LSB per layer. "
    "Default: exact on targets with an fpu, else fixed.",
)
SCHEDULE = Key(
    "schedule",
    Choice(("auto", "round_robin", "list", "split")),
    "How kernels are dealt to cores: whole ones in turn, by the critical path, or parts of each; "
    "auto by default: what is predicted to end first.",
)
PARALLEL = Key(
    "parallel",
    Choice(("auto", "data", "model", "pipeline")),
    "What clusters divide: the batch, the output channels of each layer, or the layers; auto by "
    "default: what is predicted to take least time for each input, and fits.",
)
PROFILE = Key("profile", _FILE, "A committed file of measurements; see docs/profile.md.")

_BUFFER = ("caller", "arena")
_OF_BUILDS = (
    OPTIMIZE,
    REQUANTIZE,
    Key(
        "layout",
        MapOf(Choice(("onnx", "nhwc")), "tensor"),
        "Order of an interface tensor's axes in memory; onnx by default. An operator that cannot "
        "take nhwc gets a copy, which verify notes.",
    ),
    Key(
        "input",
        Choice((*_BUFFER, "streamed", "external")),
        "Who owns the input buffers; streamed: rows are pushed, external: fetched. Default caller.",
    ),
    Key("output", Choice(_BUFFER), "Who owns the output buffers; caller by default."),
    Key(
        "max_recompute",
        Real(least=1.0, most=1000.0),
        "MACs executed / MACs of the model that strips may cost; 1.0 by default.",
    ),
    Key(
        "arena",
        Choice(("static", "caller")),
        "static: one instance. caller: the caller passes the arena, so runs are reentrant.",
    ),
    Key("share", Text(), "Group of models that never run at once; they share one arena budget."),
    Key(
        "weights",
        Choice(("auto", "braces", "string", "incbin", "image")),
        "Form of the weight tables; auto is the fastest to compile without a warning, image is a "
        "file of its own that is flashed apart; see docs/image.md.",
    ),
    Key("image_version", Whole(0, most=WORD), "Number in the head of a weight image; 0 if absent."),
    Key(
        "image_address",
        Whole(0, most=WORD),
        "Where a weight image lies in flash; with it an Intel HEX file is written as well.",
    ),
    Key(
        "image_slot",
        Quantity(SIZE),
        "Room that is kept for a weight image in flash, and counted; its own size if absent.",
    ),
    Key(
        "fold_constant_channels",
        Flag(),
        "true: fold channels that are constant whatever the input into biases; which these are then"
        " is a part of the structure. false by default.",
    ),
    Key("hook", Flag(), "true: call <model>_hook between steps; false by default."),
)

BUILD = Record(
    (
        Key(
            "model",
            ListOf(Text(_NAME, _NAME_LIKE), or_one=True),
            "A name of `models`, or a list of them.",
            required=True,
            example="model: NAME",
        ),
        Key(
            "target",
            ListOf(Text(), or_one=True),
            "A name of `targets` or a built-in target, or a list of them; all by default.",
        ),
        *_OF_BUILDS,
        SCHEDULE,
        PARALLEL,
        PROFILE,
    )
)

MODEL = Record(
    (
        Key("source", _FILE, "The .onnx file.", required=True),
        Key("shapes", MapOf(ListOf(Whole(0)), "tensor"), "Extents of inputs: {tensor: [dims]}."),
        Key("samples", _FILE, "An .npz with inputs, and expected outputs, for verify."),
        Key(
            "tolerance",
            Record(
                (
                    Key("rtol", Real(least=0.0), "Relative tolerance of floats."),
                    Key("atol", Real(least=0.0), "Absolute tolerance of floats."),
                    Key("lsb", Whole(0), "Greatest difference of integers."),
                )
            ),
            "How far outputs may be from the reference.",
        ),
        Key("state", MapOf(Text(), "output"), "{output: input} carried between runs in the arena."),
        PARALLEL,
        Key(
            "batch",
            Record(
                (
                    Key("inputs", ListOf(Text()), "Inputs whose first axis counts samples."),
                    Key(
                        "parts",
                        Whole(1),
                        "How many equal parts are made of the samples; each cluster gets some.",
                    ),
                )
            ),
            "Restructures the model by batch; see docs/training.md.",
        ),
        *_OF_BUILDS,
    )
)

MEMORY = Record(
    (
        Key("size", Quantity(SIZE), "Budget."),
        Key("align", Quantity(SIZE), "Alignment of what is placed there; 4 B by default."),
        Key("section", _SECTION, "Linker section of the arena or the weights."),
        Key(
            "holds",
            ListOf(Choice(("arena", "weights", "tiles"))),
            "What may be placed there; tiles: parts of tensors of another memory.",
        ),
        Key(
            "copy",
            Record(
                (
                    Key("setup", Quantity(TIME), "Cost of starting a transfer."),
                    Key("rate", Quantity(RATE), "Speed of a transfer."),
                    Key(
                        "objective",
                        Choice(("time", "traffic")),
                        "What plans of tiles make least: time by default if the rate is known and"
                        " optimize is speed, else the bytes moved.",
                    ),
                )
            ),
            "What a copy into it costs.",
        ),
        Key("executes", Flag(only=False), "Whether code can run there; false by default."),
    ),
    short=Quantity(SIZE),
)

_MEMORY_NAME = ("[A-Za-z][A-Za-z0-9_]*", "letters, digits and _")

KERNEL_RATE = Record(
    (
        Key("mac", Real(least=0.0), "Cycles for each MAC.", required=True),
        Key("output", Real(least=0.0), "And for each element it writes.", required=True),
        Key(
            "window",
            Real(least=0.0),
            "And for each number of a window, for each further block of channels that a near memory"
            " has it compute by itself; 2 by default.",
        ),
    )
)

RESOURCES = Record(
    (
        Key("cores", Whole(1), "Number of cores."),
        Key("threads", Whole(1), "Number of threads."),
        Key("pes", Whole(1), "Number of processing elements that run in step."),
    )
)

CLUSTER = Record(
    (
        Key(
            "name",
            Text("[a-z][a-z0-9_]*", "small letters, digits and _"),
            "What C calls it.",
            required=True,
        ),
        Key("resources", RESOURCES, "What computes in it; {cores: 1} by default."),
        Key(
            "memories",
            MapOf(MEMORY, "memory", *_MEMORY_NAME),
            "Budgets of its own, nearest to its cores first.",
        ),
    )
)

TOOLCHAIN = Record(
    (
        Key("cc", Text(), "The C compiler."),
        Key("ar", Text(), "The archiver."),
        Key("size", Text(), "The size command."),
        Key("cflags", ListOf(Text()), "Flags after dlbuild's own."),
    )
)

BOARD = Record(
    (
        Key("script", _FILE, "Linker script."),
        Key("sources", ListOf(_FILE), "C and assembler: start-up, console, marks."),
        Key("ldflags", ListOf(Text()), "Flags after dlbuild's own when a program is linked."),
    )
)

TARGET = Record(
    (
        Key("extends", Text(), "A built-in target, or another one of this file."),
        Key("summary", Text(), "What it is, in a line."),
        Key(
            "memories",
            MapOf(MEMORY, "memory", *_MEMORY_NAME),
            "Budgets, nearest to the core first.",
        ),
        Key("stack", Quantity(SIZE), "Budget of the stack, counted in its memory."),
        Key("clock", Quantity(CLOCK), "Clock of the core.", later=True),
        Key(
            "dma",
            Record(
                (
                    Key("channels", Whole(1), "Number of channels.", later=True),
                    Key("align", Quantity(SIZE), "Alignment of transfers."),
                    Key(
                        "two_dimensional",
                        Flag(),
                        "Whether it copies rows with a pitch.",
                        later=True,
                    ),
                )
            ),
            "The copy engine; absent = the core copies.",
        ),
        Key("resources", RESOURCES, "What computes, one of the three; {cores: 1} by default."),
        Key(
            "clusters",
            ListOf(CLUSTER),
            "Groups of cores with memories of their own, in place of resources.",
        ),
        Key(
            "parameters",
            Choice(("shared", "replicated")),
            "Whether clusters read one table of weights, or each its own; shared by default.",
        ),
        Key(
            "features",
            ListOf(Text()),
            "dsp, mve, x86: hand-written kernels of rules ask for them; fpu: see requantize.",
        ),
        Key(
            "cycles",
            MapOf(Quantity(COST), "dtype", "|".join(sorted(DTYPES)), "a dtype such as int8"),
            "Cycles of loops for each MAC, by dtype.",
        ),
        Key("kernels", MapOf(KERNEL_RATE, "kernel"), "Cycles of hand-written kernels, by name."),
        Key(
            "registers",
            Record(
                (
                    Key(
                        "integers", Whole(0), "Integers that an inner loop can keep; 11 if absent."
                    ),
                    Key("floats", Whole(0), "Floats, or vectors of them; 11 if absent."),
                    Key("lanes", Whole(1), "Floats in a vector; 1 if absent."),
                )
            ),
            "How many outputs a kernel computes together.",
        ),
        Key("toolchain", TOOLCHAIN, "Commands that make objects."),
        Key("board", BOARD, "What a program needs to start there; see docs/runner.md."),
        Key(
            "runner",
            Text(r".*\{elf\}.*", "a command with {elf} in it"),
            "Command that runs {elf} in {work}, for verify and bench; see docs/runner.md.",
        ),
        OPTIMIZE,
        REQUANTIZE,
        SCHEDULE,
        PARALLEL,
        PROFILE,
    )
)

PROJECT = Record(
    (
        Key("version", Whole(1, only=1), "Always 1.", required=True, example="version: 1"),
        Key("packs", ListOf(_FILE), "Folders with more rules, templates and targets."),
        Key("include", ListOf(_FILE), "YAML files merged first."),
        Key("models", MapOf(MODEL, "model", _NAME, _NAME_LIKE), "The networks."),
        Key(
            "targets",
            MapOf(TARGET, "target", r"[A-Za-z0-9][A-Za-z0-9_.-]*", "letters, digits, - and _"),
            "The chips.",
        ),
        Key("builds", ListOf(BUILD), "Which model for which target; all by default."),
    )
)


INCLUDED = Record(tuple(replace(key, required=False) for key in PROJECT.keys))
"""A file that dlbuild.yaml includes: the same keys, `version` may be left out."""

OPTION_KEYS = (
    *(key.name for key in _OF_BUILDS),
    *(SCHEDULE.name, PARALLEL.name, PROFILE.name),
)
"""The keys that are options of a build, at whatever level they stand."""


def json_schema() -> Schema:
    """Return the JSON Schema (draft-07) of dlbuild.yaml."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "dlbuild.yaml",
        **PROJECT.schema(),
    }
