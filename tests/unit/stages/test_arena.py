from dlbuild.ir.graph import Graph, Tensor
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Buffer, MemoryUse, Schedule
from dlbuild.ir.target import Options
from dlbuild.stages.arena import Member, Places, Region, arena, lifetime_table
from dlbuild.stages.interface import interface

GRAPH = Graph(
    "g",
    ("x",),
    ("y",),
    (
        Tensor("x", "int8", (8,)),
        Tensor("a", "int8", (9,)),
        Tensor("f", "float32", (2,)),
        Tensor("v", "float32", (1,)),
        Tensor("y", "int8", (8,)),
        Tensor("part", "int8", (2,)),
    ),
    (),
    (),
)
SCHEDULE = Schedule(
    (),
    (
        Buffer("x", "caller", 0, 8, 0, 1),
        Buffer("part", "caller", 4, 2, 1, 2, alias_of="x"),
        Buffer("a", "sram", 8, 9, 0, 2, align_bytes=8),
        Buffer("f", "sram", 0, 8, 1, 3, align_bytes=4),
        Buffer("v", "sram", 4, 4, 2, 4, align_bytes=4, alias_of="f"),
        Buffer("y", "caller", 0, 8, 3, 4),
    ),
    (MemoryUse("sram", 17, 17, 64, 1),),
)


def places(options: Options) -> Places:
    return Places(GRAPH, SCHEDULE, interface(GRAPH, Profile(()), "kws"), options)


def test_the_arena_is_a_union_of_arrays_of_the_types_in_it() -> None:
    room = arena(GRAPH, SCHEDULE)

    assert room.members == (Member("float", "f32", 5), Member("int8_t", "i8", 20))
    assert (room.size_bytes, room.align_bytes, room.natural_align_bytes) == (20, 8, 4)


def test_a_tensor_is_addressed_by_elements_of_its_type() -> None:
    at = places(Options())

    assert at.pointer("a") == "&arena.i8[8]"
    assert at.pointer("v") == "&arena.f32[1]"
    assert at.element("f") == "arena.f32[0]"


def test_a_callers_arena_is_a_pointer() -> None:
    assert places(Options(arena="caller")).pointer("f") == "&arena->f32[0]"


def test_a_view_of_the_callers_tensor_lies_in_its_buffer() -> None:
    at = places(Options())

    assert at.pointer("x") == "x"
    assert at.pointer("part") == "&x[4]"
    assert at.region("part") == Region("caller x", 4, 6)


def test_regions_overlap_if_they_share_a_byte() -> None:
    at = places(Options())

    assert at.region("v").overlaps(at.region("f"))
    assert at.region("x").overlaps(at.region("part"))
    assert not at.region("f").overlaps(at.region("a"))
    assert not at.region("x").overlaps(at.region("y"))


def test_the_table_shows_where_and_when_each_tensor_lies() -> None:
    assert lifetime_table(SCHEDULE.buffers) == [
        "offset  bytes  steps  tensor",
        "     8      9    0-1  'a'",
        "     0      8    1-2  'f'",
        "     4      4    2-3  'v' in 'f'",
    ]
