from dlbuild.ir.graph import Graph, Quantized, Tensor
from dlbuild.ir.profile import Kernel, Layout, Profile
from dlbuild.stages.interface import interface


def kernel(name: str) -> Kernel:
    return Kernel(name, name, (), (), "r.yaml#R", "", (), (), (), 0, 0, 0, 0, 0)


def graph(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Graph:
    tensors = tuple(Tensor(n, "int8", (1, 2, 3, 4)) for n in dict.fromkeys((*inputs, *outputs)))
    return Graph("g", inputs, outputs, tensors, (), ())


def test_ports_are_inputs_then_outputs_in_the_models_order() -> None:
    face = interface(graph(("b", "a"), ("d", "c")), Profile(()), "kws")

    assert [(p.name, p.is_input) for p in face.ports] == [
        ("b", True),
        ("a", True),
        ("d", False),
        ("c", False),
    ]


def test_a_kernel_never_takes_the_name_of_a_port() -> None:
    face = interface(
        graph(("Conv1",), ("run",)), Profile((kernel("conv1"), kernel("log10"))), "kws"
    )

    assert [p.name for p in face.ports] == ["conv1", "run_2"]
    assert face.kernels == {"conv1": "conv1_2", "log10": "log10_"}


def test_external_names_begin_with_the_model() -> None:
    face = interface(graph(("x",), ()), Profile(()), "kws")

    assert face.external_names() == ("kws_x", "kws_x_scale", "kws_x_zero_point")


def test_a_port_knows_its_layout_and_scale() -> None:
    model = Graph(
        "g", ("x",), (), (Tensor("x", "int8", (1, 2, 3, 4)),), (), (),
        quantized=(Quantized("x", "s"),),
    )  # fmt: skip
    face = interface(model, Profile((), (Layout("x", (0, 2, 3, 1)),)), "kws")

    assert face.port("x").memory_shape == (1, 3, 4, 2)
    assert face.port("x").quantized == Quantized("x", "s")
