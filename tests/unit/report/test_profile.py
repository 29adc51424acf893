"""What `dlbuild profile` prints of one build."""

from dlbuild.ir.costs import Costs, KernelCost
from dlbuild.ir.profile import Alias, Handwriting, Kernel, Profile
from dlbuild.ir.tile_plan import NEAR_REASON, TilePlan, Tiling
from dlbuild.report.profile import profile_text


def kernel(name: str, macs: int, faster: Handwriting | None = None, source: str = "") -> Kernel:
    alias = Alias(source) if source else None
    nothing = ((), (), "r.yaml#R", "", (), (), ())
    return Kernel(name, name, *nothing, macs, 0, 0, 0, macs, alias=alias, handwriting=faster)


PROFILE = Profile(
    (
        kernel("conv1", 40, Handwriting("conv_dsp")),
        kernel("conv2", 60, Handwriting("conv_dsp", "y lies in another order than it needs")),
        kernel("view3", 0, source="y"),
    )
)


def costs(*, is_measured: bool) -> Costs:
    return Costs(
        "cycles", tuple(KernelCost(k.name, k.macs, "", is_measured) for k in PROFILE.kernels)
    )


def test_a_kernel_says_which_code_it_is_and_why_not_the_faster_one() -> None:
    assert list(profile_text("m@t", PROFILE, costs(is_measured=False))) == [
        "m@t: 100 cycles, 100 MACs",
        "  kernel  MACs  time   share  per MAC        from      code",
        "  conv1     40    40  40.0 %     1.00  prediction  conv_dsp",
        "  conv2     60    60  60.0 %     1.00  prediction     loops",
        "  view3      0     0   0.0 %        -  prediction      none",
        "  conv2: loops, not conv_dsp, since y lies in another order than it needs",
        "  predicted from the target's 'cycles' and 'kernels'; 'dlbuild bench' measures",
    ]


def test_what_is_measured_is_not_called_predicted() -> None:
    lines = list(profile_text("m@t", PROFILE, costs(is_measured=True)))
    assert "predicted from" not in lines[-1]


def test_a_window_in_a_near_memory_is_why_loops_compute_a_kernel() -> None:
    plan = TilePlan((), tilings=(Tiling("conv1", "tcm", (), (), 2, 2, 64),))
    lines = list(profile_text("m@t", PROFILE, costs(is_measured=True), plan))
    assert f"  conv1: loops, not conv_dsp, since {NEAR_REASON}" in lines
    assert lines[2].endswith("loops, in tasks")
