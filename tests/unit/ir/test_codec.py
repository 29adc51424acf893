"""Canonical JSON: exact both ways, readable, and refused when it is not ours."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbuild.base.errors import UserError
from dlbuild.ir.codec import decode, encode
from dlbuild.ir.graph import Attribute, Fact, Graph, Op, Quantized, Tensor, Value
from dlbuild.ir.profile import Alias, Kernel, Layout, Profile
from dlbuild.ir.schedule import Buffer, MemoryUse, Schedule, Step
from dlbuild.ir.target import Memory, Options, Rate, Target, Toolchain
from dlbuild.ir.tile_plan import Box, Tile, TilePlan

GRAPH = Graph(
    name="toy",
    inputs=("x",),
    outputs=("y",),
    tensors=(Tensor("x", "int8", (1, 8)), Tensor("y", "int8", (1, 8))),
    ops=(Op("relu", "Max", ("x", ""), ("y",), (("alpha", 0.1), ("axes", (0, 1))), "", 13),),
    constants=(),
    values=(Value("axes", (2,), (0, 1)),),
    facts=(Fact("equal", ("a", "b")),),
    quantized=(Quantized("x", "x_scale"),),
    notes=("batch bound to 1",),
)


def test_a_graph_has_a_line_for_each_tensor_and_operator() -> None:
    assert encode(GRAPH).decode() == (
        "{\n"
        '  "kind": "graph",\n'
        '  "format": 1,\n'
        '  "name": "toy",\n'
        '  "inputs": ["x"],\n'
        '  "outputs": ["y"],\n'
        '  "tensors": [\n'
        '    {"name": "x", "dtype": "int8", "shape": [1, 8]},\n'
        '    {"name": "y", "dtype": "int8", "shape": [1, 8]}\n'
        "  ],\n"
        '  "ops": [\n'
        '    {"name": "relu", "kind": "Max", "inputs": ["x", ""], "outputs": ["y"], '
        '"attributes": [["alpha", 0.1], ["axes", [0, 1]]], "opset": 13}\n'
        "  ],\n"
        '  "constants": [],\n'
        '  "values": [\n'
        '    {"tensor": "axes", "shape": [2], "content": [0, 1]}\n'
        "  ],\n"
        '  "facts": [\n'
        '    {"kind": "equal", "tensors": ["a", "b"]}\n'
        "  ],\n"
        '  "quantized": [\n'
        '    {"tensor": "x", "scale": "x_scale"}\n'
        "  ],\n"
        '  "notes": ["batch bound to 1"]\n'
        "}\n"
    )


KERNEL = Kernel(
    name="conv1",
    anchor="n1",
    prologue=("n0",),
    epilogue=("n2",),
    rule="conv.yaml#Conv",
    variant="",
    reads=("x",),
    writes=("y",),
    constants=("w",),
    macs=12,
    flops=24,
    bytes_read=8,
    bytes_written=8,
    cycles=40,
    alias=Alias("x", 4),
    in_place=(("x", "y"),),
)

VALUES: list[object] = [
    GRAPH,
    Profile((KERNEL,), (Layout("x", (0, 2, 3, 1)),)),
    TilePlan((Tile("conv1"), Tile("conv1", 1, (Box("oh", 0, 4),)))),
    Schedule(
        (Step(0, "conv1"), Step(1, "view", is_code=False)),
        (Buffer("x", "sram", 0, 8, 0, 1, 4), Buffer("y", "sram", 0, 8, 0, 2, alias_of="x")),
        (MemoryUse("sram", 8, 8, None, 0),),
        "greedy",
    ),
    Target(
        "board",
        (Memory("sram", 49152, holds=("arena",), copy_bytes_per_cycle=-0.0),),
        ("fpu",),
        {"float32": 3.0, "int8": 1.3},
        {"conv_dsp": Rate(0.8, 20.0)},
        ("threads", 2),
        toolchain=Toolchain(cflags=("-Os",)),
    ),
    Options(layout=(("x", "nhwc"),), input="arena", max_recompute=math.inf),
    Memory("sram", 49152),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_decoding_gives_the_value_encoded(value: object) -> None:
    data = encode(value)
    again = decode(data, type(value))
    assert again == value
    assert repr(again) == repr(value)
    assert encode(again) == data


FLOATS = st.floats(allow_nan=False)
ATTRIBUTES: st.SearchStrategy[Attribute] = (
    st.integers()
    | FLOATS
    | st.text()
    | st.lists(st.integers()).map(tuple)
    | st.lists(FLOATS).map(tuple)
    | st.lists(st.text()).map(tuple)
)


@given(st.text(), ATTRIBUTES, st.lists(st.booleans() | st.integers() | FLOATS).map(tuple))
def test_any_attribute_and_content_survives_exactly(
    name: str, attribute: Attribute, content: tuple[int | float | bool, ...]
) -> None:
    graph = Graph(
        name,
        (),
        (),
        (),
        (Op(name, "k", (), (), ((name, attribute),)),),
        (),
        (Value(name, (len(content),), content),),
    )
    assert repr(decode(encode(graph), Graph)) == repr(graph)


def test_the_floats_that_json_lacks_survive() -> None:
    value = Value("t", (3,), (math.inf, -math.inf, math.nan))
    graph = Graph("g", (), (), (), (), (), (value,))
    assert b'[{"float": "inf"}, {"float": "-inf"}, {"float": "nan"}]' in encode(graph)
    assert repr(decode(encode(graph), Graph)) == repr(graph)


def test_the_order_of_a_mapping_does_not_matter() -> None:
    one = Target("t", cycles={"a": 1.0, "b": 2.0})
    two = Target("t", cycles={"b": 2.0, "a": 1.0})
    assert encode(one) == encode(two)


SCHEDULE = '{"kind": "schedule", "format": 1, "buffers": [], "memories": [], '
MISFIT = "this schedule does not fit its format: "


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            '{"kind": "schedule", "format": 2, "steps": []}',
            "this schedule has format 2, dlbuild reads format 1",
        ),
        ('{"kind": "graph", "format": 1}', "this is a graph file, a schedule file is due"),
        ('{"steps": []}', "not a schedule file: it has no 'kind'"),
        (SCHEDULE + '"solver": ""}', MISFIT + "Schedule lacks 'steps'"),
        (SCHEDULE + '"steps": [], "core": 1}', MISFIT + "Schedule has no field 'core'"),
        (SCHEDULE + '"steps": [{"number": "0", "kernel": "a"}]}', MISFIT + '"0" is not int'),
        (SCHEDULE + '"steps": [{"number": true, "kernel": "a"}]}', MISFIT + "true is not int"),
        (SCHEDULE + '"steps": {}}', MISFIT + "{} is not a list"),
        (
            "steps",
            "not a schedule file: Expecting value: line 1 column 1 (char 0)",
        ),
    ],
)
def test_a_file_that_is_not_ours_is_refused(text: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        decode(text.encode(), Schedule, "4-schedule.json")
    assert str(caught.value) == (
        f"4-schedule.json: error: {what}\n  fix: remove the file and build again"
    )
