"""One module for each stage: from bytes to values, through the stage, and back to bytes."""
