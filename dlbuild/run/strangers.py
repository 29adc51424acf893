"""What the counting plugin is told to see who touches the memory of another cluster."""

from dlbuild.run.board import BoardProgram
from dlbuild.run.elf import symbols
from dlbuild.run.runner import Built
from dlbuild.stages.arena import arenas
from dlbuild.stages.cluster_memory import cores_of

LIBRARY = ("memcpy", "memmove")
"""What a compiler makes of the loops of a copy."""


def watched(built: Built, program: BoardProgram) -> str:
    """Return arguments of the plugin: each arena with its cores, and who may read all of them.

    Nothing without clusters.
    """
    clusters = built.graph.clusters
    if not clusters.is_several:
        return ""
    at = {symbol.name: symbol for symbol in symbols(program.file)}
    rooms = arenas(built.graph, built.schedule)
    found = [
        f"room={at[room.name].address:#x}-{at[room.name].end:#x}-{cores[0]}-{cores[-1]}"
        for room, cores in zip(rooms, cores_of(built.graph, built.target).values(), strict=True)
        if room.name in at
    ]
    calls = built.functions.calls
    anchors = {kernel.name: kernel.anchor for kernel in built.profile.kernels}
    names = [
        call.function
        for call in calls.values()
        if anchors[call.step.kernel] in clusters.communication
    ]
    found += [f"open={name}" for name in dict.fromkeys((*names, *LIBRARY))]
    return "".join(f",{word}" for word in found)
