from dlbuild.ir.graph import Graph, Tensor
from dlbuild.ir.profile import Kernel, Layout, Profile
from dlbuild.ir.target import Options
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Fold, Instance, Loop, Nest, Operand, Store
from dlbuild.rulebook.value import Binary, Local, Number, Read
from dlbuild.stages.constants import Constants, constants
from dlbuild.stages.interface import interface

SHAPES = {"x": (64,), "w": (64, 32), "s": (), "y": (32,), "z": (32,)}


def dense(result: str, weights: str = "w") -> Instance:
    """Return y[n] = s * sum over k of x[k] * w[k,n]."""
    n, k = Index.axis("n"), Index.axis("k")
    term = Binary("*", Read("x", "f32"), Read("w", "f32"), "f32")
    total = Binary("+", Local("acc", "f32"), term, "f32")
    scaled = Binary("*", Read("s", "f32"), Local("acc", "f32"), "f32")
    nest = Nest(
        ("n",),
        ("k",),
        {"n": 32, "k": 64},
        {
            "x": Access("x", (64,), (k,)),
            "w": Access("w", (64, 32), (k, n)),
            "s": Access("s", (), ()),
            "b": Access("b", (32,), (n,)),
            "y": Access("y", (32,), (n,)),
        },
        (
            Loop(("k",), folds=(Fold("acc", Number(0.0, "f32"), total, "f32"),)),
            Loop((), stores=(Store("y", scaled),)),
        ),
    )
    operands = (
        Operand("x", "x", "float32", (64,), "input"),
        Operand("w", weights, "float32", (64, 32), "input"),
        Operand("s", "s", "float32", (), "input"),
        Operand("b", "b", "float32", (32,), "input"),
        Operand("y", result, "float32", (32,), "output"),
    )
    return Instance("r.yaml#R", "", "R", "", "", "", ("r",), operands, {}, (nest,))


def kernel(name: str, result: str) -> Kernel:
    return Kernel(
        name, name, (), (), "r.yaml#R", "", ("x",), (result,), ("w", "s", "b"), 0, 0, 0, 0, 0
    )


GRAPH = Graph(
    "g",
    ("x",),
    ("y", "z"),
    tuple(Tensor(name, "float32", shape) for name, shape in SHAPES.items()),
    (),
    ("w", "s", "b"),
)
PROFILE = Profile((kernel("dense1", "y"), kernel("dense2", "z")), (Layout("w", (1, 0)),))


def made(options: Options | None = None) -> Constants:
    face = interface(GRAPH, PROFILE, "kws")
    instances = {"dense1": dense("y"), "dense2": dense("z")}
    return constants(GRAPH, PROFILE, instances, face, options or Options())


def test_a_constant_of_two_kernels_is_one_table_named_by_the_first() -> None:
    tables = made()

    assert [t.symbol for t in tables.tables] == ["kws_dense1_w", "kws_dense1_s"]
    assert tables.of["dense2", "w"] is tables.of["dense1", "w"]


def test_an_operand_that_no_step_reads_has_no_table() -> None:
    assert ("dense1", "b") not in made().of


def test_a_table_lies_as_the_profile_says() -> None:
    assert made().of["dense1", "w"].order == (1, 0)
    assert made().of["dense1", "w"].memory_shape == (32, 64)


def test_large_tables_are_text_and_one_number_is_a_scalar() -> None:
    assert [t.form for t in made().tables] == ["text", "scalar"]
    assert made(Options(weights="braces")).of["dense1", "w"].form == "braces"
    assert made(Options(weights="incbin")).of["dense1", "w"].form == "incbin"


def test_the_size_is_that_of_all_tables() -> None:
    assert made().size_bytes == 64 * 32 * 4 + 4


def test_a_port_never_hides_a_table() -> None:
    x = Tensor("kws_dense1_w", "float32", (64,))
    graph = Graph("g", (x.name,), ("y", "z"), (x, *GRAPH.tensors), (), GRAPH.constants)
    face = interface(graph, PROFILE, "kws")
    instances = {"dense1": dense("y"), "dense2": dense("z")}

    tables = constants(graph, PROFILE, instances, face, Options())

    assert face.ports[0].name == "kws_dense1_w"
    assert tables.tables[0].symbol == "kws_dense1_w_2"
