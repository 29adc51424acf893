"""From rule instances and arrays to C text."""
