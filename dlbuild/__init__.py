"""dlbuild: trained ONNX models become readable C that fits a firmware's memory budget."""

__version__ = "0.1.0"
