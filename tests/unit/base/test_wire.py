import pytest
from onnx import StringStringEntryProto, TensorProto

from dlbuild.base.wire import WireError, field, fields


def test_a_message_of_protobuf_is_read() -> None:
    message = TensorProto(dims=[300, 1], name="w", raw_data=b"abc", double_data=[1.0])
    found = [
        (n, v if isinstance(v, int) else bytes(v)) for n, v in fields(message.SerializeToString())
    ]
    assert (1, 300) in found
    assert (8, b"w") in found
    assert (9, b"abc") in found


def test_protobuf_reads_what_is_written() -> None:
    message = StringStringEntryProto()
    message.ParseFromString(field(1, b"k" * 200) + field(2, b"v"))
    assert (message.key, message.value) == ("k" * 200, "v")
    tensor = TensorProto()
    tensor.ParseFromString(field(2, 300))
    assert tensor.data_type == 300


@pytest.mark.parametrize(
    "message", [b"\x0a", b"\x0a\x02a", b"\x80", b"\x09\x00", b"\x0b", b"\x0a\xff"]
)
def test_a_cut_or_strange_message_is_refused(message: bytes) -> None:
    with pytest.raises(WireError):
        list(fields(message))
