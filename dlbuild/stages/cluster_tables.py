"""Do the tables of each cluster fit its memory, beside its arena?"""

from dlbuild.base.errors import UserError
from dlbuild.base.units import bytes_text
from dlbuild.ir.schedule import Schedule
from dlbuild.stages.constants import memory_of_tables
from dlbuild.stages.sources import Sources


def check_tables(model: Sources, schedule: Schedule) -> None:
    """Refuse tables that exceed the budget of the memory of a cluster that holds them.

    Raises:
        UserError: names the cluster, what is in its memory, and the budget that would do.
    """
    heights = {use.memory: use.height_bytes for use in schedule.memories}
    for cluster in model.target.clusters:
        memory = memory_of_tables(cluster)
        if memory is None or memory.size_bytes is None:
            continue
        own = [table for table in model.tables.tables if table.cluster == cluster.name]
        tables = sum(table.size_bytes for table in own)
        arena = heights.get(f"{cluster.name}.{memory.name}", 0)
        if tables + arena <= memory.size_bytes:
            continue
        most = sorted(own, key=lambda table: -table.size_bytes)[:3]
        named = ", ".join(f"{table.symbol} {bytes_text(table.size_bytes)}" for table in most)
        raise UserError(
            f"the tables of cluster '{cluster.name}' need {bytes_text(tables)} of {memory.name}"
            f"{f', its arena {bytes_text(arena)}' if arena else ''},"
            f" the budget is {bytes_text(memory.size_bytes)}",
            where=f"{model.graph.name}@{model.target.name}",
            details=(f"the largest: {named}",),
            fix=f"set {memory.name}: {tables + arena} B in cluster '{cluster.name}', or"
            " leave weights out of its 'holds'",
        )
