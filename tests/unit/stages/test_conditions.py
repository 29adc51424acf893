from dlbuild.ir.tile_plan import RowRead
from dlbuild.stages.conditions import Test as Layer
from dlbuild.stages.conditions import condition, ready, room


def read(stride: int, low: int, high: int, extent: int) -> RowRead:
    return RowRead("x", stride, low, high, extent)


def test_a_row_is_ready_when_the_row_of_its_number_is_there() -> None:
    assert ready(Layer("done.b", 8), read(1, 0, 1, 8), "done.a") == "done.a > done.b"


def test_a_window_asks_for_its_last_row_that_exists() -> None:
    three = read(2, -1, 2, 16)

    assert ready(Layer("done.b", 8), three, "done.a") == "done.a >= (done.b * 2) + 2"
    assert ready(Layer("done.b", 9), three, "done.a") == "done.a >= min_i32((done.b * 2) + 2, 16)"


def test_a_layer_with_more_rows_than_it_reads_does_not_ask_for_rows_that_never_come() -> None:
    below = read(1, -1, 1, 5)

    assert ready(Layer("done.b", 6), below, "done.a") == "done.a >= min_i32(done.b + 1, 5)"


def test_a_tensor_read_as_a_whole_has_to_be_there() -> None:
    assert ready(Layer("done.b", 3), read(0, 0, 7, 7), "done.a") == "done.a >= 7"


def test_room_is_below_the_oldest_row_still_to_be_read() -> None:
    layer = Layer("done.a", 16)

    assert room(layer, read(2, 0, 1, 16), "done.b", 3) == "done.a < (done.b * 2) + 3"
    assert room(layer, read(1, -1, 2, 16), "done.b", 1) == "done.a < done.b"


def test_several_rows_at_a_time_ask_for_what_the_last_of_them_needs() -> None:
    five = read(1, 0, 5, 28)

    assert ready(Layer("done.b", 24, 3), five, "done.a") == "done.a >= done.b + 7"
    assert ready(Layer("done.b", 23, 3), five, "done.a") == "done.a >= min_i32(done.b + 7, 27)"
    assert room(Layer("done.a", 9, 3), read(1, 0, 5, 9), "done.b", 6) == "done.a < done.b + 4"


def test_a_long_condition_is_broken_under_its_first_test() -> None:
    tests = [f"done.layer_with_a_long_name_{n} < 100" for n in range(3)]

    assert condition("        if (", tests, " && ") == (
        "        if ((done.layer_with_a_long_name_0 < 100) &&"
        " (done.layer_with_a_long_name_1 < 100) &&\n"
        "            (done.layer_with_a_long_name_2 < 100)) {"
    )
