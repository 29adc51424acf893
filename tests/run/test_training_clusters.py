"""The training step of examples/finetune over clusters: copies of the parameters stay equal."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from dlbuild.build.builder import How, build
from dlbuild.build.built import built_of
from dlbuild.build.engine import path_of
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.main import run
from dlbuild.run.runner import Built
from dlbuild.run.toolchain import identify

EXAMPLE = Path(__file__).parents[2] / "examples" / "finetune"
STEPS = 50
NEAR = 1e-6
"""The greatest difference of a parameter after all steps, relative to the greatest parameter."""

Floats = npt.NDArray[np.float32]
COUNTS = [(1, 1), (1, 1, 1, 1)]


def clusters(counts: Sequence[int], size: str = "128 KiB") -> list[dict[str, object]]:
    return [
        {"name": f"c{n}", "resources": {"threads": count}, "memories": {"l1": size}}
        for n, count in enumerate(counts)
    ]


def project(target: Mapping[str, object], parts: int) -> None:
    """Write the example's recipe for a target of this machine."""
    entry = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]
    entry["source"] = str(EXAMPLE / "finetune.onnx")
    if parts > 1:
        entry["batch"] = {"inputs": ["image", "labels"], "parts": parts}
    recipe = {
        "version": 1,
        "models": {"finetune": entry},
        "targets": {"pc": {"extends": "host", **target}},
    }
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))


def made(counts: Sequence[int]) -> tuple[Built, Path]:
    """Return the step over clusters, and their file."""
    project({"clusters": clusters(counts)}, 2 if sum(counts) == 2 else 4)
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(), identify, lambda _: None)
    (one,) = recipe.builds
    return built_of(engine, one), path_of(engine.out, one, "clustered")


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def batches() -> list[dict[str, npt.NDArray[np.generic]]]:
    content = np.frombuffer((EXAMPLE / "digits.bin").read_bytes(), np.uint8)
    images = (content[: 360 * 64].reshape(360, 1, 8, 8) / 16).astype(np.float32)
    labels = content[360 * 64 :].astype(np.int64)
    places = [np.arange(16 * step, 16 * step + 16) % 240 for step in range(STEPS)]
    rate = np.array(0.1, np.float32)
    return [{"image": images[at], "labels": labels[at], "rate": rate} for at in places]


def trained(model: onnx.ModelProto, carried: Mapping[str, str]) -> dict[str, Floats]:
    """Return what each state is after all steps in ONNX Runtime, at first its default."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    values: dict[str, Floats] = {}
    for batch in batches():
        results = dict(zip(names, session.run(None, {**batch, **values}), strict=True))
        values = {name: results[output] for output, name in carried.items()}
    return values


@cache
def whole() -> dict[str, Floats]:
    """Return the parameters after all steps of the model as it is."""
    model = onnx.load(EXAMPLE / "finetune.onnx")
    entry = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]
    return trained(model, entry["state"])


def difference(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


@pytest.mark.parametrize("counts", COUNTS)
def test_the_file_of_the_clusters_trains_alike_and_its_copies_stay_equal(
    counts: tuple[int, ...],
) -> None:
    _, file = made(counts)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    notes = {prop.key: prop.value for prop in model.metadata_props}
    carried = {k.removeprefix("state "): v for k, v in notes.items() if k.startswith("state ")}
    copies = {k.removeprefix("copy "): v for k, v in notes.items() if k.startswith("copy ")}
    assert len(copies) == (len(counts) - 1) * len(whole())
    values = trained(model, carried)
    for name, due in whole().items():
        assert difference(values[name], due) <= NEAR
    for copy, name in copies.items():
        assert values[copy].tobytes() == values[name].tobytes()
    reduces = [
        {prop.key: prop.value for prop in node.metadata_props}
        for node in model.graph.node
        if node.op_type == "Sum"
    ]
    names = " ".join(f"c{n}" for n in range(len(counts)))
    # A parameter's slope in each cluster, the loss in the first.
    assert [note["communication"] for note in reduces] == ["reduce"] * len(reduces)
    assert {note["from"] for note in reduces} == {names}
    assert len(reduces) == len(counts) * len(whole()) + 1


def checked(built: Built) -> str:
    """Return C that compares all copies of each state, byte by byte, behind each run."""
    graph, pointer = built.graph, built.places.pointer
    pairs = [
        (pointer(state.input), pointer(state.replica_of), graph.tensor[state.input].size_bytes)
        for state in graph.states
        if state.replica_of
    ]
    compares = "\n".join(f"    bad |= memcmp({a}, {b}, {size}) != 0;" for a, b, size in pairs)
    return f"""
#include "finetune.c"
#include <stdlib.h>
int checked_run(const float *image, const int64_t *labels, const float *rate, float *loss,
                float *probabilities);
int checked_run(const float *image, const int64_t *labels, const float *rate, float *loss,
                float *probabilities)
{{
    const int status = finetune_run(image, labels, rate, loss, probabilities);
    int bad = 0;

{compares}
    if (bad) {{
        abort();
    }}
    return status;
}}
"""


def program(built: Built, *flags: str) -> Path:
    """Return the example's program, which compares copies if there are any."""
    count = built.target.resources[1]
    folder = built.folder
    Path("checked.c").write_text(checked(built), encoding="ascii")
    common = ["gcc", "-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{folder}", *flags]
    threads = [f"-DCORES={count}", "-pthread"] if count > 1 else []
    main = [str(EXAMPLE / "main.c"), "-Dfinetune_run=checked_run", "-c", "-o", "main.o"]
    subprocess.run([*common, *threads, *main], check=True)
    ports = [str(folder / "dlb_port_cores.c")] if count > 1 else []
    sources = ["main.o", "checked.c", str(folder / "finetune_weights.c"), *ports]
    subprocess.run([*common, *threads, *sources, "-o", "main", "-lm"], check=True)
    return Path("main")


def trains(file: Path) -> Floats:
    """Return the parameters after the example's ten epochs."""
    command = [str(file.resolve()), str(EXAMPLE / "digits.bin"), "saved.bin"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    before, after = map(int, re.findall(r"(?:before|after): (\d+) of 120", said))
    assert before < 12
    assert after > 100
    return np.fromfile("saved.bin", np.float32)


@cache
def alone() -> Floats:
    """Return the parameters that one thread without clusters comes to."""
    project({}, 1)
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(), identify, lambda _: None)
    return trains(program(built_of(engine, recipe.builds[0])))


@pytest.mark.parametrize("counts", [*COUNTS, (2, 1)])
def test_training_over_clusters_has_no_race_and_copies_stay_equal_in_each_step(
    counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TSAN_OPTIONS", "exitcode=66")
    built, _ = made(counts)
    found = trains(program(built, "-fsanitize=thread"))
    assert difference(found, alone()) <= NEAR


def test_threads_and_one_thread_verify_the_step_over_clusters() -> None:
    project({"clusters": clusters((2, 2)), "parameters": "replicated"}, 4)
    assert run(("verify",)) == 0


def normalised() -> onnx.ModelProto:
    """Return a step whose update multiplies, sums rows and takes a norm, which is an output too."""

    def node(kind: str, inputs: str, output: str, **attributes: int) -> onnx.NodeProto:
        made: onnx.NodeProto = helper.make_node(kind, inputs.split(), [output], f"the_{output}")
        attribute = [helper.make_attribute(key, value) for key, value in attributes.items()]
        made.attribute.extend(attribute)
        return made

    def info(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    rng = np.random.default_rng(0)
    first, mixer = (
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (17, 33)), ("mixer", (17, 17)))
    )
    nodes = [
        node("Gemm", "x w", "guess", transB=1),
        node("Sub", "guess t", "error"),
        node("Gemm", "error x", "slope", transA=1),
        node("Add", "v slope", "v_next"),
        node("Mul", "slope slope", "squares"),
        node("ReduceSum", "squares", "norm", keepdims=0),
        node("MatMul", "mixer v_next", "mixed"),
        node("Div", "mixed norm", "clipped"),
        node("Softmax", "clipped", "change", axis=1),
        node("Sub", "w change", "w_next"),
    ]
    graph = helper.make_graph(
        nodes,
        "step",
        [info("x", 8, 33), info("t", 8, 17), info("w", 17, 33), info("v", 17, 33)],
        [info("norm"), info("w_next", 17, 33), info("v_next", 17, 33)],
        [first, mixer],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def test_copies_are_equal_where_clusters_divide_their_update_differently(
    capsys: pytest.CaptureFixture[str],
) -> None:
    onnx.save(normalised(), "step.onnx")
    step = {
        "source": "step.onnx",
        "state": {"w_next": "w", "v_next": "v"},
        "batch": {"inputs": ["x", "t"], "parts": 4},
    }
    odd = {"extends": "host", "schedule": "split", "clusters": clusters((1, 3))}
    recipe = {"version": 1, "models": {"step": step}, "targets": {"odd": odd}}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    assert run(("verify",)) == 0
    said = capsys.readouterr().out.splitlines()
    copies = [line.split() for line in said if "first cluster's" in line]
    assert [(words[-1], words[3]) for words in copies] == [("w_next.c1", "0"), ("v_next.c1", "0")]


def test_parameters_are_loaded_into_every_copy_and_saved_once() -> None:
    built, _ = made((1, 1))
    text = (built.folder / "finetune.c").read_text()
    load, save = (text.partition(f"finetune_params_{what}(")[2] for what in ("load", "save"))
    assert load.partition("\n}\n")[0].count("memcpy(") == 2 * len(whole())
    assert save.partition("\n}\n")[0].count("memcpy(") == len(whole())
    size = sum(array.nbytes for array in whole().values())
    assert f"#define FINETUNE_PARAMS_BYTES ({size})" in (built.folder / "finetune.h").read_text()
    offsets = [b for b in built.schedule.buffers if b.tensor in built.graph.replicas]
    assert {b.memory for b in offsets} == {"c1.l1"}
    for one, other in pairwise(sorted({(b.offset_bytes, b.size_bytes) for b in offsets})):
        assert one[0] + one[1] <= other[0]


def test_a_cluster_that_cannot_hold_its_copy_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    room = clusters((1, 1))
    room[1]["memories"] = {"l1": "24 KiB"}
    project({"clusters": room}, 2)
    assert run(("build", "--sources")) == 1
    said = capsys.readouterr().err
    assert "data: the arena of cluster 'c1' needs " in said
    assert "of l1, the budget is 24,576 B" in said
