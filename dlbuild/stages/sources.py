"""What the four C files of a model share: names, tables, the structure's digest, the banner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbuild import __version__
from dlbuild.emit.comments import block, extents, quoted
from dlbuild.emit.ctypes import is_encoded, is_packed, storage
from dlbuild.emit.environment import Environment
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Registers, Target
from dlbuild.ir.tile_plan import NO_TILES, TilePlan
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kernels import instances_of, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.constant import Constant
from dlbuild.stages.constants import Constants, constants, in_clusters, structure_digest
from dlbuild.stages.interface import Interface, interface
from dlbuild.stages.printer import printer_of

TAG_DIGITS = 8
"""Hexadecimal digits of the digest that C compares; more do not fit its 32-bit integers."""

Context = dict[str, object]
"""Names that a template may use."""


@dataclass(frozen=True)
class Sources:
    """One model's structure as its C files see it."""

    graph: Graph
    profile: Profile
    target: Target
    options: Options
    face: Interface
    instances: Mapping[str, Instance]
    tables: Constants
    structure: str
    environment: Environment

    @property
    def tag(self) -> str:
        """The part of the structure's digest that C compares."""
        return self.structure[:TAG_DIGITS]

    @property
    def registers(self) -> Registers | None:
        """What blocks of outputs may use; none where the least code is asked for."""
        return None if self.options.optimize == "size" else self.target.registers

    def render(self, template: str, file: str, about: str, context: Context) -> str:
        """Return the text of one file. `facts` of the context follow the banner's own."""
        more = context.get("facts", [])
        assert isinstance(more, list)
        shared: Context = {
            "m": self.face.prefix,
            "M": self.face.macro,
            "file": file,
            "about": about,
            "version": __version__,
            "structure": f"0x{self.tag}UL",
            "structure_name": self.tag,
        }
        facts = [*self.facts(), *more]
        return self.environment.get_template(template).render({**shared, **context, "facts": facts})

    def facts(self) -> list[tuple[str, str]]:
        """Return the lines of the banner: what was built, for what, and how."""
        options = self.options
        choices = (
            f"optimize: {options.optimize}, requantize: {options.requantize}, "
            f"arena: {options.arena},"
        )
        more = (
            f"input: {options.input}, output: {options.output}, weights: {options.weights}, "
            f"hook: {'true' if options.hook else 'false'}"
        )
        return [
            ("structure", self.structure),
            ("target", quoted(self.target.name)),
            ("recipe", choices),
            ("", more),
        ]


def sources(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    book: RuleBook,
    target: Target,
    options: Options,
    name: str,
    tiles: TilePlan = NO_TILES,
) -> Sources:
    """Return what the files of the model `name` share."""
    instances = instances_of(graph, profile, book, wish_of(target, options), tiles)
    face = interface(graph, profile, name)
    tables = constants(graph, profile, instances, face, options)
    if options.weights != "image":  # which keeps them together
        tables = in_clusters(tables, graph, profile, target)
    return Sources(
        graph=graph,
        profile=profile,
        target=target,
        options=options,
        face=face,
        instances=instances,
        tables=tables,
        structure=structure_digest(graph, profile, tables),
        environment=printer_of(book, options),
    )


def includes_for(dtypes: Sequence[str]) -> tuple[str, ...]:
    """Return the headers that declare the C types of these element types."""
    is_truth = "bool" in dtypes
    return ("stdbool.h", "stdint.h") if is_truth else ("stdint.h",)


def element_type(dtype: str, shape: Sequence[int]) -> str:
    """Return a tensor's type for people: `int8[1][49][10]`, by its C type if it has one."""
    has_ctype = not is_packed(dtype) and not is_encoded(dtype)
    return f"{storage(dtype).removesuffix('_t') if has_ctype else dtype}{extents(shape)}"


def axes_note(order: Sequence[int]) -> str:
    """Return how axes lie in memory, if not in the model's own order."""
    if not order or list(order) == sorted(order):
        return ""
    return f" (axes {', '.join(map(str, order))} of the model's)"


def table_note(model: Sources, table: Constant, margin: str = "") -> str:
    """Return a table's comment: where it is read, what it is, how it lies."""
    reader = (
        f"{model.face.kernels[table.kernel]} {table.operand}" if table.kernel else table.operand
    )
    shape = element_type(table.dtype, table.memory_shape)
    origin = quoted(table.tensor) if table.tensor else "computed by the build"
    origin = origin if table.kernel else "what it has at first"
    return block(f"{reader}: {shape}{axes_note(table.order)}, {origin}", margin)
