"""Train the network on scikit-learn's handwritten digits and write the models of this example.

Needs: pip install scikit-learn onnx. Takes about a minute. Run: python train.py
Writes digits.onnx, digits_int8.onnx, and samples of the test set with their expected outputs.
"""

from pathlib import Path

import export
import network
import numpy as np
import quantize
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
SEED = 1
N_TRAIN = 1437  # the first four fifths; the rest is by other writers
N_EPOCHS = 60
N_SAMPLES = 32


def accuracy(scores: np.ndarray, labels: np.ndarray) -> str:
    """Return the share of `labels` that `scores` rank first."""
    right = int((scores.argmax(axis=1) == labels).sum())
    return f"{right} of {len(labels)} ({100 * right / len(labels):.1f} %)"


def main() -> None:
    """Train, quantise, write, and print what the models achieve."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = digits.target.astype(np.int64)
    seen, unseen, truth = images[:N_TRAIN], images[N_TRAIN:], labels[N_TRAIN:]

    parameters = network.train(seen, labels[:N_TRAIN], SEED, N_EPOCHS)
    logits = network.forward(parameters, unseen).logits
    model = quantize.quantize(parameters, seen)
    rounded = model.input.quantize(unseen)
    integers = quantize.forward(model, rounded)
    print(f"test set, float32: {accuracy(logits, truth)}")
    print(f"test set, int8:    {accuracy(integers, truth)}")

    (HERE / "digits.onnx").write_bytes(export.float_model(parameters).SerializeToString())
    (HERE / "digits_int8.onnx").write_bytes(export.int8_model(model).SerializeToString())
    few = slice(0, N_SAMPLES)
    probabilities = network.softmax(logits[few])[:, None]
    np.savez(HERE / "digits_samples.npz", image=unseen[few, None], probabilities=probabilities)
    np.savez(
        HERE / "digits_int8_samples.npz",
        image=rounded[few, None],
        probabilities=integers[few, None],
    )


if __name__ == "__main__":
    main()
