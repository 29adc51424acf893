"""The recipe, the pipeline and what decides which stage runs."""
