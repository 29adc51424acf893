"""The pipeline of dlbuild: its stages, in order, and the checks of budgets between them."""

from dlbuild.build.stage import Gate, Pipeline, Stage

_STEPS = "dlbuild.build.steps"
_PARSERS = ("onnx", "numpy", "ml_dtypes", "protobuf", "pyyaml")
_PLAN_OPTIONS = (
    *("optimize", "requantize", "layout", "input", "output"),
    *("arena", "hook", "max_recompute", "schedule", "parallel"),
)
_C_OPTIONS = (
    *("optimize", "requantize", "layout", "input", "output"),
    *("arena", "share", "weights", "hook"),
)

PIPELINE = Pipeline(
    stages=(
        Stage(
            "parse",
            f"{_STEPS}.parse",
            makes=("graph", "weights", "derivation"),
            model=("source", "shapes", "state", "batch"),
            options=("fold_constant_channels", "layout"),
            folders=("rules/ops",),
            libraries=_PARSERS,
            again=f"{_STEPS}.parse_again",
            of="one",
        ),
        Stage(
            "parse",
            f"{_STEPS}.parse_model",
            makes=("model_graph", "model_weights", "model_derivation"),
            model=("source", "shapes", "state", "batch"),
            options=("fold_constant_channels", "layout"),
            folders=("rules/ops",),
            libraries=_PARSERS,
            again=f"{_STEPS}.parse_model_again",
            of="clusters",
        ),
        Stage(
            "spread",
            f"{_STEPS}.spread",
            reads=("model_graph",),
            makes=("graph",),
            target=(
                *("name", "features", "cycles", "kernels", "registers", "memories", "stack_bytes"),
                *("resources", "clusters", "parameters", "toolchain", "runner"),
            ),
            options=_PLAN_OPTIONS,
            folders=("rules/ops", "templates"),
            measurements=True,
            libraries=("jinja2", "numpy", "ml_dtypes", "pyyaml"),
            of="clusters",
        ),
        Stage(
            "spread weights",
            f"{_STEPS}.spread_weights",
            reads=("graph", "model_weights"),
            makes=("weights", "clustered"),
            libraries=_PARSERS,
            of="clusters",
        ),
        Stage(
            "profile",
            f"{_STEPS}.profile",
            reads=("graph",),
            makes=("profile",),
            target=("features", "cycles", "kernels", "registers", "resources"),
            options=("optimize", "requantize", "layout", "input", "output"),
            folders=("rules/ops",),
            libraries=("jinja2", "numpy", "ml_dtypes", "pyyaml"),
        ),
        Stage(
            "costs",
            f"{_STEPS}.costs",
            reads=("graph", "profile"),
            makes=("costs",),
            target=("name", "features", "registers", "toolchain", "runner"),
            options=("optimize", "requantize", "layout"),
            folders=("rules/ops", "templates"),
            measurements=True,
            libraries=("jinja2", "numpy", "ml_dtypes", "pyyaml"),
        ),
        Stage(
            "tile",
            f"{_STEPS}.tile",
            reads=("graph", "profile", "costs"),
            makes=("tiles",),
            target=(
                *("name", "features", "cycles", "kernels", "memories", "dma"),
                *("stack_bytes", "resources", "clusters"),
            ),
            options=(
                *("optimize", "requantize", "max_recompute"),
                *("input", "output", "arena", "hook", "schedule"),
            ),
            folders=("rules/ops",),
            libraries=("numpy", "pyyaml"),
        ),
        Stage(
            "schedule",
            f"{_STEPS}.schedule",
            reads=("graph", "profile", "costs", "tiles"),
            makes=("schedule",),
            target=("name", "memories", "stack_bytes", "resources", "clusters"),
            options=("optimize", "input", "output", "schedule", "arena"),
            libraries=("numpy",),
        ),
        Stage(
            "render",
            f"{_STEPS}.render",
            reads=("graph", "profile", "tiles", "schedule"),
            makes=(
                *("header", "source", "weights_header", "image_layout"),
                *("port_header", "port_source", "cores_source"),
                *("merged", "table_plan"),
            ),
            target=(
                *("name", "features", "memories", "registers"),
                *("resources", "clusters", "parameters"),
            ),
            options=(*_C_OPTIONS, "max_recompute"),
            counting=("cc", "size"),
            folders=("rules/ops", "templates"),
            libraries=("jinja2", "numpy", "ml_dtypes", "pyyaml"),
        ),
        Stage(
            "tables",
            f"{_STEPS}.tables",
            reads=("weights", "table_plan"),
            makes=("weights_source", "weights_binary", "image", "image_hex"),
            options=("image_version", "image_address"),
            libraries=("numpy", "ml_dtypes"),
        ),
        Stage(
            "compile",
            f"{_STEPS}.compile",
            reads=("source", "header", "weights_header", "port_header"),
            makes=("object", "call_graph"),
            target=("name", "toolchain"),
            options=("optimize",),
            programs=("cc",),
        ),
        Stage(
            "compile tables",
            f"{_STEPS}.compile_tables",
            reads=("weights_source", "weights_binary", "header", "weights_header"),
            makes=("weights_object",),
            target=("name", "toolchain"),
            options=("optimize",),
            programs=("cc",),
        ),
        Stage(
            "size",
            f"{_STEPS}.size",
            reads=("object", "weights_object", "call_graph", "image_layout"),
            makes=("size",),
            target=("name", "memories", "toolchain", "stack_bytes", "board"),
            programs=("cc", "size"),
        ),
        Stage(
            "archive",
            f"{_STEPS}.archive",
            reads=("object", "weights_object"),
            makes=("archive",),
            target=("name", "toolchain"),
            options=("optimize",),
            programs=("ar",),
        ),
        Stage(
            "annotate",
            f"{_STEPS}.annotate",
            reads=("graph", "profile", "costs", "schedule"),
            makes=("annotated",),
            options=("weights",),
            libraries=("onnx", "numpy", "ml_dtypes", "protobuf", "pyyaml"),
        ),
        Stage(
            "fragments",
            f"{_STEPS}.fragments",
            makes=("make", "cmake"),
            target=("memories", "resources"),
            options=("weights", "image_address"),
        ),
    ),
    gates=(
        Gate("ram", f"{_STEPS}.ram", needs=("schedule",), before=("render", "tables")),
        Gate("flash", f"{_STEPS}.flash", needs=("schedule", "size"), before=("archive",)),
    ),
)


def with_verify(*, layers: bool) -> Pipeline:
    """Return the pipeline with the comparison of the C with the model behind it.

    layers: compare each kernel alone as well.
    """
    stage = Stage(
        "verify layers" if layers else "verify",
        f"{_STEPS}.verify_layers" if layers else f"{_STEPS}.verify",
        reads=(
            *("graph", "weights", "profile", "tiles", "schedule"),
            *("source", "header", "weights_source", "weights_binary", "weights_header", "image"),
            *("port_header", "port_source", "cores_source", "merged"),
        ),
        makes=("verdict",),
        model=("source", "samples", "tolerance"),
        target=(
            *("name", "features", "memories", "registers", "toolchain", "board", "runner"),
            *("resources", "clusters", "parameters"),
        ),
        options=_C_OPTIONS,
        folders=("rules/ops", "templates", "boards"),
        libraries=("onnx", "onnxruntime", "numpy", "ml_dtypes", "jinja2", "pyyaml", "protobuf"),
        programs=("cc",),
    )
    return Pipeline((*PIPELINE.stages, stage), PIPELINE.gates)
