"""What parse refuses, with the whole text of each error."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dlbuild.base.errors import UserError
from dlbuild.stages.parse import Parsed, inputs_of

RELU = """<ir_version: 8, opset_import: ["" : 13]>
g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }"""
OPEN = """<ir_version: 8, opset_import: ["" : 13]>
g (float[N,3,H,W] image) => (float[N,3,H,W] y) { y = Relu(image) }"""


class Reader(Protocol):
    folder: Path

    def save(self, text: str, constants: object = None, name: str = "m.onnx") -> Path: ...

    def parse(self, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Parsed: ...

    def read(self, text: str, constants: object = None) -> Parsed: ...


def refusal(reader: Reader, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> str:
    """Return the error's text, the folder written as FOLDER."""
    with pytest.raises(UserError) as caught:
        reader.parse(path, shapes)
    return str(caught.value).replace(str(path.parent), "FOLDER")


def refused_text(reader: Reader, text: str, constants: object = None) -> str:
    return refusal(reader, reader.save(text, constants))


def test_a_missing_file_is_named(reader: Reader) -> None:
    assert refusal(reader, reader.folder / "none.onnx") == (
        "FOLDER/none.onnx: error: there is no such model file\n"
        "  fix: correct the path in `source:`; it is relative to the file that names it"
    )


EXPORT = "export the model to ONNX again, with the exporter of its framework"


@pytest.mark.reported("c20_opaque_crash_message")
@pytest.mark.parametrize(
    ("content", "why", "fix"),
    [
        (
            b"PK\x03\x04 a zip file",
            "it is a zip archive, as PyTorch and Keras write it",
            EXPORT,
        ),
        (
            b"\x1c\x00\x00\x00TFL3 of another kind",
            "it is a TensorFlow Lite model",
            "convert it: python -m tf2onnx.convert --tflite model.tflite --output model.onnx",
        ),
        (b"\x89HDF\r\n\x1a\n and more", "it is an HDF5 file, as Keras writes it", EXPORT),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 12345\n",
            "it is a Git LFS pointer: the model itself was not fetched",
            "run `git lfs pull` in the model's repository",
        ),
        *(
            (
                page,
                "it is a web page or XML, perhaps the page about the model",
                "download the file itself (GitHub: 'Download raw file')",
            )
            for page in (b"<!DOCTYPE html><html></html>", b"\n\n  <html>", b"<?xml?>")
        ),
        (
            b"{}",
            "its bytes are not a serialised onnx.ModelProto",
            "export the model to ONNX (a .tflite, .pt or .h5 file has to be converted first)",
        ),
    ],
)
def test_another_kind_of_file_is_named(reader: Reader, content: bytes, why: str, fix: str) -> None:
    path = reader.folder / "m.onnx"
    path.write_bytes(content)
    assert refusal(reader, path) == (
        f"FOLDER/m.onnx: error: this is not an ONNX file\n  why: {why}\n  fix: {fix}"
    )


@pytest.mark.reported("c20_opaque_crash_message")
def test_a_folder_is_no_model(reader: Reader) -> None:
    (reader.folder / "m.onnx").mkdir()
    assert refusal(reader, reader.folder / "m.onnx") == (
        "FOLDER/m.onnx: error: the model is a folder, not a file\n"
        "  fix: name the .onnx file; a SavedModel has to be converted:"
        " python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
    )


def test_a_truncated_file_says_how_long_it_is(reader: Reader) -> None:
    path = reader.save(RELU)
    whole = path.read_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert refusal(reader, path) == (
            "FOLDER/m.onnx: error: the ONNX file is truncated\n"
            f"  why: after {length:,} bytes the model is not complete\n"
            "  fix: copy or export it again (with Git LFS: run `git lfs pull`)"
        )


@pytest.mark.reported("c20_opaque_crash_message")
def test_every_cut_of_a_file_is_a_user_error(reader: Reader) -> None:
    path = reader.save(RELU)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert refusal(reader, path).startswith("FOLDER/m.onnx: error: ")


def test_unknown_operators_are_all_listed(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "com.acme" : 1]>
    g (float[1,3] x) => (float[1,3] y) {
      [first] a = com.acme.MyOp(x)
      [second] b = com.acme.MyOp(a)
      [third] y = Frobnicate(b)
    }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: error: the model has operators that are unknown\n"
        "  com.acme.MyOp: node 'first', node 'second'\n"
        "  Frobnicate: node 'third'\n"
        "  why: neither ONNX nor a rule says what they compute\n"
        "  fix: add a rule in a pack (`packs:` in dlbuild.yaml), or replace the operator"
    )


def test_a_custom_domain_is_unknown(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "com.acme" : 1]>
    g (float[1,3] x) => (float[1,3] y) { y = com.acme.MyOp(x) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: error: the model has an operator that is unknown: com.acme.MyOp\n"
        "  com.acme.MyOp: node 'y'\n"
        "  why: neither ONNX nor a rule says what they compute\n"
        "  fix: add a rule in a pack (`packs:` in dlbuild.yaml), or replace the operator"
    )


def test_a_domain_without_rules_is_named(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "ai.onnx.ml" : 1]>
    g (float[1,3] x) => (float[1,3] y) { [scale] y = ai.onnx.ml.CategoryMapper(x) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'scale': error: "
        "no rule computes the operator 'CategoryMapper' of the domain 'ai.onnx.ml'\n"
        "  fix: add a rule in a pack (`packs:` in dlbuild.yaml), or replace the operator"
    )


def test_open_dimensions_are_named_with_the_line_to_write(reader: Reader) -> None:
    assert refused_text(reader, OPEN) == (
        "FOLDER/m.onnx: error: input 'image' has open dimensions: 2 ('H'), 3 ('W')\n"
        "  why: firmware has fixed buffers, so every extent must be known; "
        "only a batch is assumed 1\n"
        "  fix: bind them in the recipe: shapes: {image: [1, 3, ..., ...]}"
    )


def test_a_shape_of_no_input_suggests_the_nearest(reader: Reader) -> None:
    assert refusal(reader, reader.save(OPEN), {"imago": (1, 3, 2, 2)}) == (
        "FOLDER/m.onnx: error: `shapes:` names 'imago', which is not an input of the model\n"
        "  fix: did you mean 'image'?"
    )


def test_a_shape_of_another_rank_shows_the_declared_one(reader: Reader) -> None:
    assert refusal(reader, reader.save(OPEN), {"image": (1, 3, 2)}) == (
        "FOLDER/m.onnx: error: the shape [1, 3, 2] of input 'image' has 3 dimensions, "
        "the model's has 4\n"
        "  why: the model declares 'image' as [N, 3, H, W]\n"
        "  fix: give 4 extents"
    )


def test_a_shape_that_contradicts_a_fixed_extent_names_the_axis(reader: Reader) -> None:
    assert refusal(reader, reader.save(OPEN), {"image": (1, 4, 2, 2)}) == (
        "FOLDER/m.onnx: error: the shape [1, 4, 2, 2] of input 'image' contradicts the model: "
        "dimension 1 is 3, not 4\n"
        "  why: the model declares 'image' as [N, 3, H, W]\n"
        "  fix: give 3, or export the model with this dimension open"
    )


def test_a_symbol_is_bound_once(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[N,L] a, float[N,L] b) => (float[N,L] y) { y = Add(a, b) }"""
    assert refusal(reader, reader.save(text), {"a": (1, 4), "b": (1, 5)}) == (
        "FOLDER/m.onnx: error: the shape [1, 5] of input 'b' contradicts the model: "
        "dimension 1 is 4, not 5\n"
        "  why: the model declares 'b' as [N, L]\n"
        "  fix: give 4, or export the model with this dimension open"
    )


def test_an_extent_below_one_is_refused(reader: Reader) -> None:
    assert refusal(reader, reader.save(OPEN), {"image": (-1, 3, 2, 2)}) == (
        "FOLDER/m.onnx: error: the shape [-1, 3, 2, 2] of input 'image' has an extent below 0"
    )


def test_operands_that_do_not_fit_are_shown(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[2,3] x) => (float[2,4] y) <float[2,4] w = {0,0,0,0,0,0,0,0}>
    { [product] y = MatMul(x, w) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'product' (MatMul): error: the operands do not fit the operator\n"
        "  operands: 'x' float32[2, 3], 'w' float32[2, 4]\n"
        "  why: Incompatible dimensions for matrix multiplication\n"
        "  fix: check the shapes in the recipe and the export of the model"
    )


def test_an_element_type_that_the_operator_lacks_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 11]>
    g (int8[1,2] x) => (int8[1,1] y) <int8[1,2] w = {1, 2}>
    { y = Gemm <transB = 1> (x, w) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'y' (Gemm): error: "
        "input 0 ('x') is int8, which the operator does not take\n"
        "  why: ONNX defines it for float16, float32, float64, int32, int64, uint32, uint64\n"
        "  fix: this is not a valid ONNX model: quantised layers are written with "
        "QuantizeLinear and DequantizeLinear; export it again"
    )


def test_a_shape_that_depends_on_content_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (int64[2] n) => (float[K,L] y) { [spread] y = ConstantOfShape(n) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'spread' (ConstantOfShape): error: "
        "the shape of 'y' is not known before the model runs\n"
        "  why: it depends on what the input holds; firmware has fixed buffers\n"
        "  fix: bind the inputs' shapes in the recipe, "
        "or export the model without this operator"
    )


def test_a_cycle_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[1] x) => (float[1] y) { [one] a = Add(x, b) [two] b = Neg(a) y = Neg(b) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'one' (Add): error: "
        "this node reads a tensor that is computed from its own output\n"
        "  why: an ONNX graph has no cycles; state goes through inputs and outputs\n"
        "  fix: export the model again"
    )


def test_a_name_for_two_tensors_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[1] x) => (float[1] y) { y = Neg(x) y = Relu(x) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: error: the name 'y' stands for two tensors\n"
        "  why: it is a node's output more than once\n"
        "  fix: give each tensor a name of its own and export again"
    )


def test_a_name_with_control_characters_is_refused(reader: Reader) -> None:
    node = helper.make_node("Relu", ["x"], ["a\nb"])
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "g", [info("x", TensorProto.FLOAT, [1])], [info("a\nb", TensorProto.FLOAT, [1])]
    )
    path = reader.folder / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert refusal(reader, path) == (
        "FOLDER/m.onnx: error: a tensor is named 'a\\nb'\n"
        "  why: names appear in messages, file comments and reports; "
        "this one is empty or holds control characters\n"
        "  fix: rename the tensor and export again"
    )


def test_an_empty_graph_is_refused(reader: Reader) -> None:
    model = helper.make_model(helper.make_graph([], "g", [], []))
    path = reader.folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert refusal(reader, path) == (
        "FOLDER/m.onnx: error: the model has no outputs\n"
        "  why: there is nothing to compute\n"
        "  fix: export the model with its outputs"
    )


def test_an_output_that_nothing_computes_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[1] x) => (float[1] y, float[1] z) { y = Neg(x) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: error: nothing computes the output 'z'\n  fix: export the model again"
    )


def test_a_tensor_that_nothing_computes_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[1] x) => (float[1] y) { [sum] y = Add(x, lost) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'sum' (Add): error: nothing computes the tensor 'lost'\n"
        "  fix: export the model again"
    )


def test_dropout_in_training_mode_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[1] x) => (float[1] y) <float r = {0.5}, bool t = {1}> { y = Dropout(x, r, t) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'y' (Dropout): error: Dropout in training mode cannot be built\n"
        "  why: it needs random numbers\n"
        "  fix: export the model for inference"
    )


def external(reader: Reader, location: str, **entries: str) -> Path:
    """Write a model whose bias is in another file."""
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[1,2] x) => (float[1,2] y) { y = Add(x, b) }"""
    path = reader.save(text)
    model = onnx.load_model_from_string(path.read_bytes())
    tensor = model.graph.initializer.add(name="b", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("location", ["../b.bin", "/etc/passwd", "sub/../../b.bin", "..\\b.bin"])
def test_external_data_outside_the_models_folder_is_refused(reader: Reader, location: str) -> None:
    assert refusal(reader, external(reader, location)) == (
        f"FOLDER/m.onnx: tensor 'b': error: "
        f"external data '{location}' is outside the model's folder\n"
        "  why: a model may name files in its own folder only, "
        "so that a build reads nothing else\n"
        "  fix: put the data file beside the model and export with a relative location"
    )


def test_a_link_out_of_the_folder_is_refused(reader: Reader, tmp_path_factory: object) -> None:
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    outside = tmp_path_factory.mktemp("outside") / "b.bin"
    outside.write_bytes(bytes(8))
    (reader.folder / "b.bin").symlink_to(outside)
    assert "is outside the model's folder" in refusal(reader, external(reader, "b.bin"))


def test_missing_external_data_is_named(reader: Reader) -> None:
    assert refusal(reader, external(reader, "b.bin")) == (
        "FOLDER/m.onnx: tensor 'b': error: the external data file 'b.bin' does not exist\n"
        "  fix: put 'b.bin' beside 'm.onnx'"
    )


@pytest.mark.parametrize(("key", "text"), [("offset", "abc"), ("length", "-4"), ("offset", "-4")])
def test_a_place_in_external_data_is_a_number_of_bytes(reader: Reader, key: str, text: str) -> None:
    path = external(reader, "b.bin", **{key: text})
    (path.parent / "b.bin").write_bytes(bytes(8))
    assert refusal(reader, path) == (
        f"FOLDER/m.onnx: tensor 'b': error: the {key} of its external data is '{text}'\n"
        "  why: it is to be a number of bytes\n"
        "  fix: export the model again"
    )


def test_external_data_has_no_name_that_ends_within(reader: Reader) -> None:
    said = refusal(reader, external(reader, "b\0.bin"))
    assert "the name of its external data file holds a zero byte" in said


def test_a_tensor_of_more_elements_than_int32_counts_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
g (float[1,65536,65536] x) => (float[1,65536,65536] y) { y = Relu(x) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: error: 'x' [1, 65536, 65536] has 4,294,967,296 elements\n"
        "  why: the C counts them by int32_t, up to 2,147,483,647\n"
        "  fix: check the shapes in the recipe and the export of the model"
    )


def test_a_result_of_more_elements_than_int32_counts_is_not_made(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
g (float[1,3] x) => (float[1,3] y) <int64[2] s = {1048576, 1048576}> {
    k = ConstantOfShape(s)
    z = ReduceSum(k)
    y = Add(x, z)
}"""
    assert "'k' [1048576, 1048576] has 1,099,511,627,776 elements" in refused_text(reader, text)


def test_external_data_that_is_too_short_says_what_is_needed(reader: Reader) -> None:
    path = external(reader, "b.bin", offset="4", length="8")
    (path.parent / "b.bin").write_bytes(bytes(8))
    assert refusal(reader, path) == (
        "FOLDER/m.onnx: tensor 'b': error: the external data file 'b.bin' is too short\n"
        "  why: bytes 4 to 12 are needed, the file has 8\n"
        "  fix: copy or export the file again"
    )


def test_external_data_in_a_folder_with_spaces_is_read_from_its_offset(reader: Reader) -> None:
    path = external(reader, "größe 1/b c.bin", offset="4", length="8")
    data = path.parent / "größe 1" / "b c.bin"
    data.parent.mkdir()
    data.write_bytes(np.array([9, 1, 2], dtype="<f4").tobytes())
    assert reader.parse(path).weights["b"].tolist() == [1.0, 2.0]
    assert inputs_of(path) == (path, data)


def test_an_output_without_elements_is_left_out_with_a_note(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[1,4] x) => (float[1,0] y) <int64[1] at = {4}, int64[1] end = {9}, int64[1] axis = {1}>
    { [cut] y = Slice(x, at, end, axis) }"""
    graph = reader.parse(reader.save(text)).graph
    assert graph.outputs == ()
    assert graph.notes == ("output 'y' has no elements and is left out",)


def test_a_constant_index_outside_the_tensor_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[3,2] x) => (float[2,2] y) <int64[2] places = {-3, 3}>
    { [pick] y = Gather(x, places) }"""
    assert refused_text(reader, text) == (
        "FOLDER/m.onnx: node 'pick' (Gather): error: "
        "the index 3 in 'places' is outside an axis of 3\n"
        "  fix: export the model again"
    )


def save_input(reader: Reader, value: onnx.ValueInfoProto, *, opset: bool = True) -> Path:
    """Write a model that gives back an input of the given type."""
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph)
    if not opset:
        del model.opset_import[:]
    path = reader.folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_an_input_that_is_no_tensor_of_numbers_is_refused(reader: Reader) -> None:
    text = helper.make_tensor_value_info("x", TensorProto.STRING, [1])
    key, value = TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    table = onnx.TypeProto()
    table.map_type.key_type = key
    table.map_type.value_type.CopyFrom(value)
    for given in (text, helper.make_value_info("x", table)):
        assert refusal(reader, save_input(reader, given)) == (
            "FOLDER/m.onnx: error: input 'x' is not a tensor of numbers\n"
            "  why: maps and text have no fixed place in memory\n"
            "  fix: export the model with tensors of numbers as inputs"
        )


def test_an_input_without_a_shape_asks_for_one(reader: Reader) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    path = save_input(reader, value)
    assert refusal(reader, path) == (
        "FOLDER/m.onnx: error: input 'x' has no shape\n"
        "  fix: state it in the recipe: shapes: {x: [...]}"
    )
    assert reader.parse(path, {"x": (2, 3)}).graph.tensor["y"].shape == (2, 3)


def test_a_model_without_an_operator_set_is_refused(reader: Reader) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    assert refusal(reader, save_input(reader, value, opset=False)) == (
        "FOLDER/m.onnx: error: the model does not say which operator set it uses\n"
        "  why: it has no opset_import, so no operator has a meaning\n"
        "  fix: export the model again"
    )


def test_a_name_that_is_no_text_is_refused(reader: Reader) -> None:
    path = reader.save(RELU)
    path.write_bytes(path.read_bytes().replace(b"\x04Relu", b"\x04Re\xffu"))
    assert refusal(reader, path) == (
        "FOLDER/m.onnx: error: a name in the model is not UTF-8 text\n"
        "  why: the file is damaged, or its writer used another encoding\n"
        "  fix: export the model again"
    )


def test_a_constant_of_text_is_refused(reader: Reader) -> None:
    path = reader.save(RELU)
    model = onnx.load_model_from_string(path.read_bytes())
    model.graph.initializer.append(
        TensorProto(name="t", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])
    )
    path.write_bytes(model.SerializeToString())
    assert refusal(reader, path) == (
        "FOLDER/m.onnx: error: the constant 't' holds text\n"
        "  why: firmware kernels compute on numbers\n"
        "  fix: remove the text operators from the model before the export"
    )


def test_a_constant_with_too_few_bytes_is_refused(reader: Reader) -> None:
    path = reader.save(RELU)
    model = onnx.load_model_from_string(path.read_bytes())
    model.graph.initializer.add(name="t", data_type=TensorProto.FLOAT, dims=[3], raw_data=bytes(8))
    path.write_bytes(model.SerializeToString())
    assert refusal(reader, path).startswith(
        "FOLDER/m.onnx: error: the constant 't' cannot be decoded\n  why: "
    )
