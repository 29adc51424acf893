"""The stages of the pipeline, each a pure function, and the audit of their results."""
