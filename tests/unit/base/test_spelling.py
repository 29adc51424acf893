from dlbuild.base.spelling import nearest, suggestion


def test_the_nearest_word_is_suggested() -> None:
    assert nearest("memorys", ["memories", "stack"]) == "memories"
    assert suggestion("memorys", ["memories", "stack"]) == "did you mean 'memories'?"


def test_without_a_near_word_all_are_listed() -> None:
    assert suggestion("xyz", ["b", "a"]) == "use one of: a, b"


def test_with_nothing_known_nothing_is_said() -> None:
    assert suggestion("xyz", []) == ""
