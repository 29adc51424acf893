"""Forms of the kernels of a strip: the fastest, and slower ones for less working memory."""

from dlbuild.ir.profile import Form, Handwriting, Kernel, Profile, Scratch
from dlbuild.ir.tile_plan import Layer, Strip, Tile, TilePlan, scratch_of
from dlbuild.stages.forms import forms_for

THREE, ONE = Form(3, 1.0, 1.0, 600, 600), Form(1, 1.5, 1.5, 200, 200)
LINES = Form(1, 1.0, 1.0, 900, 90, 20, 4)
DIRECT = Form(0, 1.25, 0.75)


def kernel(name: str, *forms: Form) -> Kernel:
    """Return a kernel of a hundred multiplications, written by hand in these forms."""
    scratch = (Scratch("words", "int32", forms[0].count),)
    return Kernel(
        *(name, name, (), (), "conv.yaml#QLinearConv", "fixed", ("x",), ("y",), ("w",)),
        *(100, 0, 0, 0, 0),
        handwriting=Handwriting("fast", "", ("oh",), scratch, ("ow",), forms),
    )


PROFILE = Profile((kernel("conv", THREE, ONE), kernel("depthwise", LINES, DIRECT)))


def strip(*passes: tuple[int, int]) -> Strip:
    """Return the strip of both kernels, in these columns."""
    columns = "ow" if passes else ""
    names = [("conv", "y"), ("depthwise", "z")]
    layers = (Layer(k, "oh", 5, (), y, passes=passes, columns=columns) for k, y in names)
    return Strip(tuple(layers))


def test_the_fastest_come_first_and_each_next_needs_less() -> None:
    found = list(forms_for(strip(), PROFILE))

    assert [(f.forms, f.size_bytes, f.slow_macs) for f in found] == [
        ((0, 0), 2400, 0),
        ((1, 0), 800, 50),
    ]


def test_narrow_parts_of_rows_go_in_the_form_that_is_fastest_for_them() -> None:
    (fastest, *_) = forms_for(strip((0, 8), (8, 16)), PROFILE)

    assert fastest.forms == (0, 1)
    assert fastest.slow_macs == 0


def test_working_memory_is_that_of_the_form_and_of_the_columns_of_a_pass() -> None:
    tiles = (Tile("conv", form=1), Tile("depthwise"))
    conv, depthwise = PROFILE.kernels

    in_rows = TilePlan(tiles, (strip(),))
    in_passes = TilePlan(tiles, (strip((0, 10), (10, 20)),))
    counts = [scratch_of(depthwise, plan) for plan in (TilePlan(tiles), in_rows, in_passes)]

    assert scratch_of(conv, in_rows) == Scratch("words", "int32", 200)
    assert [found.count if found else 0 for found in counts] == [900, 90, 50]


def test_a_form_without_working_memory_has_none() -> None:
    plan = TilePlan((Tile("depthwise", form=1),), (strip(),))

    assert scratch_of(PROFILE.kernel["depthwise"], plan) is None


def test_loops_in_the_place_of_a_hand_written_kernel_are_its_slowest_form() -> None:
    (found,) = forms_for(Strip((Layer("conv", "kh", 5, (), "y"),)), PROFILE)

    assert (found.forms, found.size_bytes, found.slow_macs) == ((0,), 0, 200)
