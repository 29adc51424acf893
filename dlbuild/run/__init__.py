"""Compilers, runners and the comparison of what they print with a reference."""
