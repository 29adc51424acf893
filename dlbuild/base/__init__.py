"""What every floor above may lean on: errors, YAML with line marks, digests, units, paths."""
