"""Measure how well memory is used, and check it against what is asked for.

    python bench/memory.py placement [--data DIR] [--only GLOB] [--effort N]
    python bench/memory.py strips [--corpus DIR] [--only GLOB] [--input GLOB] [--no-count] [--large]
    python bench/memory.py strips --trades [--only GLOB]
    python bench/memory.py tiles [--only GLOB] [--sizes KIB,KIB] [--no-run]
    python bench/memory.py behaviours

Each subcommand is a module of this folder with `add_arguments(parser)` and `run(arguments)`,
which prints its table and yields (name of a check, whether it passed).
Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import sys

import memory_behaviours
import memory_placement
import memory_strips
import memory_tiles

SUBCOMMANDS = {
    "placement": memory_placement,
    "strips": memory_strips,
    "tiles": memory_tiles,
    "behaviours": memory_behaviours,
}


def main() -> int:
    """Run one subcommand."""
    parser = argparse.ArgumentParser(description="Measure how well memory is used.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in SUBCOMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(commands.add_parser(name, help=summary))
    arguments = parser.parse_args()
    passed, failed = 0, []
    for name, is_right in SUBCOMMANDS[arguments.command].run(arguments):
        if is_right:
            passed += 1
        else:
            failed.append(name)
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
