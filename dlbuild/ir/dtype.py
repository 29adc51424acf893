"""Element types of tensors, by the names of the ONNX specification in numpy's spelling."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type: its name, the bits it takes in memory, and the family it is of."""

    name: str
    bits: int
    kind: Kind

    def size_bytes(self, count: int) -> int:
        """Return the bytes of `count` elements, sub-byte types packed."""
        return (count * self.bits + 7) // 8


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("float16", 16, "float"),
        DType("bfloat16", 16, "float"),
        DType("float32", 32, "float"),
        DType("float64", 64, "float"),
        DType("float8e4m3fn", 8, "float"),
        DType("float8e4m3fnuz", 8, "float"),
        DType("float8e5m2", 8, "float"),
        DType("float8e5m2fnuz", 8, "float"),
        DType("float8e8m0", 8, "float"),
        DType("float4e2m1", 4, "float"),
        DType("int2", 2, "int"),
        DType("int4", 4, "int"),
        DType("int8", 8, "int"),
        DType("int16", 16, "int"),
        DType("int32", 32, "int"),
        DType("int64", 64, "int"),
        DType("uint2", 2, "uint"),
        DType("uint4", 4, "uint"),
        DType("uint8", 8, "uint"),
        DType("uint16", 16, "uint"),
        DType("uint32", 32, "uint"),
        DType("uint64", 64, "uint"),
        DType("bool", 8, "bool"),
    )
}
