"""An int8 model of a float model: ONNX Runtime's static quantisation, with this project's settings.

Integers of 8 bits with their scales beside them as QuantizeLinear and DequantizeLinear nodes:
weights symmetric, one scale for each channel; activations with a zero point, in the range that
samples show.
"""

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.weights import Array

OLDEST_OPSET = 13
"""From it on a scale for each channel can be written."""


def quantized(
    source: Path, samples: Sequence[Mapping[str, Array]], *, is_per_channel: bool
) -> bytes:
    """Return a model in int8, as an ONNX file.

    Args:
        source: the float model.
        samples: values of its inputs, as many as show the range of each tensor.
        is_per_channel: one scale for each output channel of weights, else one for all.

    Raises:
        UserError: onnxruntime or its quantisation is not installed, or refuses the model.
    """
    try:
        from onnxruntime import quantization as q  # noqa: PLC0415 - optional
        from onnxruntime.quantization.shape_inference import (  # noqa: PLC0415 - as above
            quant_pre_process,
        )
    except ImportError as fault:
        raise UserError(
            f"quantising needs onnxruntime: {fault}", fix="pip install 'dlbuild[quantize]'"
        ) from None
    with tempfile.TemporaryDirectory(prefix="dlbuild-quantize-") as folder, _silence():
        newer, prepared, made = (Path(folder) / f"{n}.onnx" for n in ("newer", "prepared", "int8"))
        try:
            newer.write_bytes(_modern(source))
            quant_pre_process(newer, prepared, skip_symbolic_shape=True)
            q.quantize_static(
                prepared,
                made,
                _Reader(samples),
                quant_format=q.QuantFormat.QDQ,
                per_channel=is_per_channel,
                activation_type=q.QuantType.QInt8,
                weight_type=q.QuantType.QInt8,
                extra_options={"WeightSymmetric": True, "ActivationSymmetric": False},
            )
        except Exception as fault:  # it raises whatever its parts do
            text = str(fault).strip().splitlines()
            raise UserError(
                "ONNX Runtime does not quantise the model",
                where=str(source),
                why=text[0] if text else type(fault).__name__,
                fix="quantise it in its framework: a .tflite file in int8 becomes ONNX with"
                " tf2onnx",
            ) from fault
        return made.read_bytes()


def _modern(source: Path) -> bytes:
    """Return the model with its data inside, of an operator set that the scales need."""
    import onnx  # noqa: PLC0415 - slow to import
    from onnx import version_converter  # noqa: PLC0415 - as above

    model = onnx.load(str(source))
    version = max((entry.version for entry in model.opset_import if not entry.domain), default=0)
    if 0 < version < OLDEST_OPSET:
        model = version_converter.convert_version(model, OLDEST_OPSET)
    content: bytes = model.SerializeToString()
    return content


class _Reader:
    """Hands out the samples, one by one; then none. The name of the method is ONNX Runtime's."""

    def __init__(self, samples: Sequence[Mapping[str, Array]]) -> None:
        self._samples: Iterator[Mapping[str, Array]] = iter(samples)

    def get_next(self) -> dict[str, Array] | None:
        sample = next(self._samples, None)
        if sample is None:
            return None
        return {name: np.asarray(array, order="C") for name, array in sample.items()}


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the library's advice, which is for who calls it by hand, off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
