"""Which tables a model's kernels read, what each is called, and in which form it is written.

Structure only: the header of the tables is made from this, their numbers never are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from dlbuild.base.digest import sha256
from dlbuild.emit.names import Names
from dlbuild.ir import codec
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph, State, Tensor
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Cluster, Memory, Options, Target
from dlbuild.rulebook.instance import Instance, Operand
from dlbuild.rulebook.kernels import orders_of
from dlbuild.rulebook.operands import read_operands
from dlbuild.stages.cluster_memory import cluster_of
from dlbuild.stages.constant import Constant, Form
from dlbuild.stages.interface import Interface

LARGE_BYTES = 4096
"""From this size on a table is written for the compiler, below it for the reader."""


@dataclass(frozen=True, slots=True)
class Constants:
    """All tables in order of first use, and the table of each (kernel, operand)."""

    tables: tuple[Constant, ...]
    of: Mapping[tuple[str, str], Constant]

    @property
    def size_bytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.size_bytes for table in self.tables)


def constants(
    graph: Graph,
    profile: Profile,
    instances: Mapping[str, Instance],
    face: Interface,
    options: Options,
) -> Constants:
    """Name every constant that a kernel reads. One that several kernels read is one table."""
    is_image = options.weights == "image"
    # A parameter of the model's function would hide a table of its name.
    own = face.member_names() if is_image else tuple(port.name for port in face.ports)
    names = Names((*face.external_names(), *own))
    prefix = _prefix(face, options)
    is_constant = frozenset(graph.constants)
    tables: dict[tuple[str, str], Constant] = {}
    of: dict[tuple[str, str], Constant] = {}
    is_several = graph.clusters.is_several
    for kernel in profile.kernels:
        instance = instances[kernel.name]
        orders = orders_of(kernel, instance, profile)
        for operand in read_operands(instance):
            is_made = operand.role == "constant"
            if not is_made and operand.tensor not in is_constant:
                continue
            if not prod(operand.shape):  # nothing of it is read
                continue
            key = ("", operand.tensor)
            if is_made:
                key = (_made_of(instance, operand) if is_several else kernel.name, operand.name)
            if key not in tables:
                symbol = f"{prefix}{face.kernels[kernel.name]}_{operand.name}"
                tables[key] = Constant(
                    symbol=names.claim(symbol),
                    kernel=kernel.name,
                    operand=operand.name,
                    tensor="" if is_made else operand.tensor,
                    dtype=operand.dtype,
                    shape=operand.shape,
                    order=orders[operand.name],
                    form=_form(operand, options),
                )
            of[kernel.name, operand.name] = tables[key]
    for state in graph.states:
        if state.initial and not state.replica_of:
            table = _initial(graph, state, face, names, options)
            tables["", state.initial] = of["", state.initial] = table
    return Constants(tuple(tables.values()), of)


def _prefix(face: Interface, options: Options) -> str:
    """Return what names of tables begin with; members of an image have no need of it."""
    return "" if options.weights == "image" else f"{face.prefix}_"


def _initial(
    graph: Graph, state: State, face: Interface, names: Names, options: Options
) -> Constant:
    """Return the table of what a state has at first."""
    tensor = graph.tensor[state.input]
    port = next(p.name for p in face.ports if p.is_input and p.tensor.name == state.input)
    return Constant(
        symbol=names.claim(f"{_prefix(face, options)}{port}_initial"),
        kernel="",
        operand=port,
        tensor=state.initial,
        dtype=tensor.dtype,
        shape=tensor.shape,
        order=(),
        form=_form(tensor, options),
    )


def _made_of(instance: Instance, operand: Operand) -> str:
    """Say what a table is computed from, and how: the same for the same numbers in clusters."""
    parts: list[str] = []
    for made in instance.made:
        if made.operand == operand.name:
            sources = [instance.operand(access.operand) for access in made.nest.access.values()]
            parts += [repr(made.nest), *(o.tensor for o in sources if o.role == "input")]
            parts += [_made_of(instance, o) for o in sources if _is_other(o, operand)]
    return " ".join(parts)


def _is_other(source: Operand, operand: Operand) -> bool:
    return source.role == "constant" and source.name != operand.name


def in_clusters(found: Constants, graph: Graph, profile: Profile, target: Target) -> Constants:
    """Return the tables, replicated ones that one cluster alone reads in its memory.

    A cluster has such tables if one of its memories says that it holds weights. Large tables that
    are embedded as a file stay together.
    """
    holding = {c.name for c in target.clusters if memory_of_tables(c) is not None}
    if not holding or target.parameters == "shared":
        return found
    clusters = cluster_of(graph, profile)
    readers: dict[str, set[str]] = {}
    for (kernel, _), table in found.of.items():
        if not kernel:  # what states have at first, of which each cluster takes a copy
            continue
        readers.setdefault(table.symbol, set()).add(clusters[kernel])
    home = {
        symbol: next(iter(names))
        for symbol, names in readers.items()
        if len(names) == 1 and names <= holding
    }

    def moved(table: Constant) -> Constant:
        is_embedded = table.form == "incbin"
        return table if is_embedded else replace(table, cluster=home.get(table.symbol, ""))

    tables = {table.symbol: moved(table) for table in found.tables}
    return Constants(
        tuple(tables.values()), {key: tables[table.symbol] for key, table in found.of.items()}
    )


def memory_of_tables(cluster: Cluster) -> Memory | None:
    """Return the memory of a cluster that holds its tables, None if it has none."""
    return next((m for m in cluster.memories if "weights" in m.holds), None)


def structure_digest(graph: Graph, profile: Profile, tables: Constants) -> str:
    """Return the digest that ties the four files of one structure together."""
    shape = ";".join(
        f"{t.symbol}:{t.dtype}:{t.shape}:{t.order}:{t.form}:{t.tensor}" for t in tables.tables
    )
    return sha256(codec.encode(graph) + codec.encode(profile) + shape.encode())


def _form(operand: Operand | Tensor, options: Options) -> Form:
    count = prod(operand.shape)
    if count == 1:
        return "scalar"
    is_large = count * DTYPES[operand.dtype].bits // 8 >= LARGE_BYTES
    if options.weights in ("braces", "image") or not is_large:
        return "braces"
    return "incbin" if options.weights == "incbin" else "text"
