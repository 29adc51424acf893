"""Passes over the graph as it is read: one file for each, in the order of `stages.parse`."""
