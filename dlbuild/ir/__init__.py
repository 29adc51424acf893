"""The values that pass between stages: graphs, targets, plans, and their canonical JSON."""
