"""The standard ONNX operators that restructured graphs are made of."""

OPSET = 13
ADD = "Sum"
"""Adds up partial sums, in the order of its inputs."""
COPY = "Identity"
"""Brings a tensor from one cluster to another."""
JOIN = "Concat"
"""Joins parts along an axis."""
TAKE = "Slice"
"""Takes a part."""
