"""State: what a run leaves behind for the next one, compared with ONNX Runtime run by run."""

import ctypes
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.compile import WARNINGS
from dlbuild.stages.arena import arena
from dlbuild.stages.audit import audit
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile
from tests.run.conftest import Formatted

Floats = npt.NDArray[np.float32]

HOST = Target("host", memories=(Memory("ram"),), features=("fpu",))
RUNS = 4


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


@dataclass(frozen=True)
class Net:
    """A model with state. first: what states have at first that do not begin as zeros."""

    nodes: Sequence[onnx.NodeProto]
    inputs: Mapping[str, Sequence[int]]
    outputs: Mapping[str, Sequence[int]]
    state: Mapping[str, str]
    first: Mapping[str, Floats]

    @property
    def content(self) -> bytes:
        content: bytes = self.model.SerializeToString()
        return content

    @property
    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            list(self.nodes),
            "net",
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                for n, s in self.inputs.items()
            ],
            [
                helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                for n, s in self.outputs.items()
            ],
            [numpy_helper.from_array(array, name) for name, array in self.first.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def node(kind: str, inputs: str, output: str, **attributes: int | list[int]) -> onnx.NodeProto:
    made: onnx.NodeProto = helper.make_node(kind, inputs.split(), [output], output)
    made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    return made


def numbers(*shape: int) -> Floats:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


S = [2, 3]
NETS = {
    "sum": Net(
        [node("Add", "s x", "next"), node("Relu", "next", "y")],
        {"x": S, "s": S},
        {"y": S, "next": S},
        {"next": "s"},
        {},
    ),
    "delay line": Net(
        [node("Identity", "x", "a2"), node("Identity", "a", "b2"), node("Add", "a b", "y")],
        {"x": S, "a": S, "b": S},
        {"y": S, "a2": S, "b2": S},
        {"a2": "a", "b2": "b"},
        {"b": numbers(*S)},
    ),
    "read after it is known": Net(
        [node("Sub", "s x", "next"), node("Exp", "s", "e"), node("Mul", "e next", "y")],
        {"x": S, "s": S},
        {"y": S, "next": S},
        {"next": "s"},
        {"s": numbers(*S)},
    ),
    "turned": Net(
        [node("Transpose", "s", "next", perm=[1, 0]), node("Sub", "s x", "y")],
        {"x": [3, 3], "s": [3, 3]},
        {"y": [3, 3], "next": [3, 3]},
        {"next": "s"},
        {"s": numbers(3, 3)},
    ),
    "each other": Net(
        [node("Sub", "b x", "a2"), node("Mul", "a x", "b2"), node("Add", "a2 b2", "y")],
        {"x": S, "a": S, "b": S},
        {"y": S, "a2": S, "b2": S},
        {"a2": "a", "b2": "b"},
        {"a": numbers(*S)},
    ),
    "kept": Net(
        [node("Flatten", "s", "next"), node("Add", "s x", "y")],
        {"x": S, "s": S},
        {"y": S, "next": S},
        {"next": "s"},
        {"s": numbers(*S)},
    ),
    "scalar": Net(
        [node("Mul", "s x", "next"), node("Neg", "next", "y")],
        {"x": [], "s": []},
        {"y": [], "next": []},
        {"next": "s"},
        {"s": np.array(3, np.float32)},
    ),
    "training": Net(
        [
            node("Gemm", "x w", "z", transB=1),
            node("Sub", "z t", "error"),
            node("Gemm", "error x", "slope", transA=1),
            node("Mul", "slope rate", "change"),
            node("Sub", "w change", "trained"),
            node("ReduceL2", "error", "y", keepdims=0),
        ],
        {"x": [4, 3], "t": [4, 2], "rate": [], "w": [2, 3]},
        {"y": [], "trained": [2, 3]},
        {"trained": "w"},
        {"w": numbers(2, 3)},
    ),
}
OPTIONS = {
    "speed": Options(),
    "ram": Options(optimize="ram"),
    "in arena": Options(input="arena", output="arena"),
    "text tables": Options(weights="string"),
    "image": Options(weights="image"),
}


class Library:
    """A model's functions, called through ctypes."""

    def __init__(self, net: Net, options: Options, folder: Path) -> None:
        file = folder / "net.onnx"
        file.write_bytes(net.content)
        parsed = parse(file, {}, book(), "net", net.state)
        self.graph: Graph = parsed.graph
        kernels = profile(self.graph, book(), HOST, options)
        tiles = tile(self.graph, kernels, HOST, options, book())
        plan = schedule(self.graph, kernels, tiles, HOST, options)
        audit(self.graph, kernels, tiles, plan, HOST, options)
        self.arena_bytes = arena(self.graph, plan).size_bytes
        fixed = (book(), HOST, options, "net")
        files = {n: t.encode() for n, t in render(self.graph, kernels, tiles, plan, *fixed).items()}
        files |= tables(self.graph, parsed.weights, kernels, *fixed)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        self.folder = folder
        self.is_in_arena = options.input == "arena"
        for compiler in ("gcc", "clang-14"):
            flags = ["-std=c99", *WARNINGS, "-Werror", "-shared", "-fPIC", "-o", "net.so"]
            command = [compiler, *flags, "net.c", "net_weights.c", "-lm"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert not done.stderr
        self.library = ctypes.CDLL(str(folder / "net.so"))
        self.image = ctypes.create_string_buffer(files.get("net_image.bin", b""), 4096)
        if options.weights == "image":
            self._use_image()

    def _use_image(self) -> None:
        """Let it use its image of weights, which lies behind some bytes for its alignment."""
        at = ctypes.addressof(self.image)
        first = at + -at % 16
        ctypes.memmove(first, bytes(self.image), 2048)
        assert self.library.net_use(ctypes.c_void_p(first), 2048) == 0

    def call(self, function: str, *arguments: object) -> None:
        getattr(self.library, f"net_{function}")(*arguments)

    def run(self, given: Mapping[str, Floats]) -> dict[str, Floats]:
        """Run once; inputs and outputs that are no state."""
        mine = {n: np.array(a, order="C", copy=True) for n, a in given.items()}
        tensor = self.graph.tensor
        names = [name for name in self.graph.outputs if name not in self.graph.carried]
        made = {name: np.full(tensor[name].shape, 7, np.float32) for name in names}
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*mine.values(), *made.values())]
        if not self.is_in_arena:
            assert self.library.net_run(*pointers) == 0
            return made
        for name, array in mine.items():
            ctypes.memmove(self._place(name), array.ctypes.data, array.nbytes)
        assert self.library.net_run() == 0
        for name, array in made.items():
            ctypes.memmove(array.ctypes.data, self._place(name), array.nbytes)
        return made

    def _place(self, name: str) -> int:
        function = getattr(self.library, f"net_{name}")
        function.restype = ctypes.c_void_p
        found: int = function()
        return found


def samples(net: Net) -> list[dict[str, Floats]]:
    rng = np.random.default_rng(5)
    names = [name for name in net.inputs if name not in net.state.values()]
    return [
        {n: rng.uniform(0.1, 0.9, net.inputs[n]).astype(np.float32) for n in names}
        for _ in range(RUNS)
    ]


def expected(net: Net, states: dict[str, Floats]) -> list[dict[str, Floats]]:
    """Return the outputs of each run by ONNX Runtime; `states` are left as they are at the end."""
    session = onnxruntime.InferenceSession(net.content, providers=["CPUExecutionProvider"])
    found = []
    for sample in samples(net):
        values = session.run(list(net.outputs), {**sample, **states})
        outputs = dict(zip(net.outputs, values, strict=True))
        states |= {state: outputs[name] for name, state in net.state.items()}
        found.append({name: a for name, a in outputs.items() if name not in net.state})
    return found


def at_first(net: Net) -> dict[str, Floats]:
    names = net.state.values()
    return {n: net.first.get(n, np.zeros(net.inputs[n], np.float32)) for n in names}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", NETS)
def test_each_run_begins_with_what_the_last_one_left(
    name: str, options: str, tmp_path: Path
) -> None:
    net = NETS[name]
    library = Library(net, OPTIONS[options], tmp_path)
    due = expected(net, at_first(net))
    for _ in range(2):
        library.call("reset")
        for sample, values in zip(samples(net), due, strict=True):
            made = library.run(sample)
            for output, value in values.items():
                np.testing.assert_allclose(made[output], value, rtol=1e-6, atol=1e-6)


def test_parameters_are_saved_and_loaded(tmp_path: Path) -> None:
    net = NETS["each other"]
    library = Library(net, Options(), tmp_path)
    states = at_first(net)
    expected(net, states)
    library.call("reset")
    for sample in samples(net):
        library.run(sample)
    size = net.first["a"].nbytes
    assert f"#define NET_PARAMS_BYTES ({size})" in (tmp_path / "net.h").read_text()
    saved = ctypes.create_string_buffer(b"\xee" * (size + 2), size + 2)
    at_odd_address = ctypes.c_void_p(ctypes.addressof(saved) + 1)

    library.call("params_save", at_odd_address)

    assert saved.raw[:1] == saved.raw[-1:] == b"\xee"
    np.testing.assert_allclose(np.frombuffer(saved.raw[1:-1], np.float32), states["a"].ravel())
    library.call("reset")
    library.call("params_load", at_odd_address)
    due = expected(net, {"a": states["a"], "b": np.zeros(S, np.float32)})
    for sample, values in zip(samples(net), due, strict=True):
        np.testing.assert_allclose(library.run(sample)["y"], values["y"], rtol=1e-6)


def test_a_state_of_zeros_is_no_parameter(tmp_path: Path) -> None:
    Library(NETS["sum"], Options(), tmp_path)
    text = (tmp_path / "net.h").read_text()
    assert "void net_reset(void);" in text
    assert "params" not in text


def test_state_counts_in_the_arena(tmp_path: Path) -> None:
    assert Library(NETS["sum"], Options(), tmp_path).arena_bytes == 2 * 3 * 4


def test_an_update_in_place_needs_no_copy(tmp_path: Path) -> None:
    library = Library(NETS["training"], Options(), tmp_path)
    text = (tmp_path / "net.c").read_text()
    assert re.search(r"Identity 'trained(_2)?': no code", text)
    assert library.graph.carried["w"].initial == "w_initial"


@pytest.mark.parametrize("name", ["training", "sum"])
def test_clang_format_changes_nothing(name: str, tmp_path: Path, formatted: Formatted) -> None:
    for arena_of in ("static", "caller"):
        folder = tmp_path / arena_of
        folder.mkdir()
        options = Options(arena="caller") if arena_of == "caller" else Options()
        Library(NETS[name], options, folder)
        for file in ("net.c", "net.h"):
            assert formatted(folder / file) == (folder / file).read_text()


def refused(net: Net, state: Mapping[str, str], folder: Path, options: Options) -> str:
    file = folder / "net.onnx"
    file.write_bytes(net.content)
    with pytest.raises(UserError) as caught:
        planned(file, state, options)
    return str(caught.value).replace(f"{folder}/", "")


def planned(file: Path, state: Mapping[str, str], options: Options) -> TilePlan:
    parsed = parse(file, {}, book(), "net", state)
    kernels = profile(parsed.graph, book(), HOST, options)
    return tile(parsed.graph, kernels, HOST, options, book())


def test_state_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    said = refused(NETS["sum"], {"nxt": "s"}, tmp_path, Options())
    assert "the recipe's 'state' names an output 'nxt', which the model does not have" in said
    assert "did you mean 'next'?" in said
    assert "names an input 't'" in refused(NETS["sum"], {"next": "t"}, tmp_path, Options())


def test_state_of_another_shape_is_refused(tmp_path: Path) -> None:
    said = refused(NETS["training"], {"y": "w"}, tmp_path, Options())
    assert "'y' cannot be carried to 'w'" in said
    assert "it is float32[], the input is float32[2, 3]" in said


def test_a_constant_is_no_state(tmp_path: Path) -> None:
    net = NETS["training"]
    inputs = {name: shape for name, shape in net.inputs.items() if name != "w"}
    said = refused(
        Net(net.nodes, inputs, net.outputs, {}, net.first), net.state, tmp_path, Options()
    )
    assert "the state 'w' is a constant of the model" in said
    assert "list 'w' among the graph's inputs as well" in said


def test_states_that_take_each_others_place_are_refused(tmp_path: Path) -> None:
    nodes = [node("Identity", "a", "b2"), node("Identity", "b", "a2"), node("Add", "a b", "y")]
    net = Net(nodes, {"a": S, "b": S}, {"y": S, "a2": S, "b2": S}, {}, {})
    said = refused(net, {"a2": "a", "b2": "b"}, tmp_path, Options())
    assert "the states 'a2', 'b2' take each other's place" in said


def test_a_streamed_input_does_not_go_with_state(tmp_path: Path) -> None:
    net = NETS["sum"]
    options = Options(input="streamed", output="arena")
    assert "'input: streamed' does not go with 'state'" in refused(
        net, net.state, tmp_path, options
    )
