"""Functions that differ in numbers alone, as text: what each group takes apart and as one."""

from collections.abc import Iterator, Mapping, Sequence

from dlbuild.emit.comments import shortened
from dlbuild.ir.merged import Group, MergedFunctions
from dlbuild.report.text import table_text

_HEADER = ("function", "for", "layers", "apart", "as one", "saved", "instructions")
_LEGEND = """\
  apart, as one: bytes of the object of the code, compiled both ways, groups above as decided
  instructions: of a run of its layers as one, over those apart; known with --run"""


def merged_text(
    build: str, found: MergedFunctions | None, costs: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    """Yield the lines of one build.

    Args:
        build: its label.
        found: what was decided; None if no flash was counted.
        costs: of the first function of a group, what its layers cost apart and as one.
    """
    if found is None:
        yield f"functions of {build}: each for its own sizes, since optimize is not size"
        return
    if not found.groups:
        yield f"functions of {build}: no two differ in numbers alone"
        return
    yield f"functions of {build} that differ in numbers alone"
    rows = [_row(group, costs.get(group.functions[0])) for group in found.groups]
    yield from (f"  {line}" for line in table_text(_HEADER, rows))
    for group in found.groups:
        yield f"  {group.functions[0]}: {_sentence(group)}"
    yield _LEGEND


def _row(group: Group, cost: tuple[int, int] | None) -> Sequence[str]:
    together = f"{group.together_bytes:,}" if group.together_bytes else "-"
    saved = f"{group.apart_bytes - group.together_bytes:,}" if group.together_bytes else "-"
    ratio = f"{cost[1] / cost[0]:.3f}" if cost is not None and cost[0] else "unknown"
    return (
        group.functions[0],
        f"{len(group.functions)} sizes",
        str(len(group.layers)),
        f"{group.apart_bytes:,}",
        together,
        saved,
        ratio if group.is_merged else "-",
    )


def _sentence(group: Group) -> str:
    layers = ", ".join(shortened(layer) for layer in group.layers)
    if group.obstacle:
        return f"apart, {group.obstacle}; layers {layers}"
    numbers = ", ".join(group.numbers)
    how = "one function" if group.is_merged else "apart, which takes less"
    return f"{how}; they differ in {numbers}; layers {layers}"
