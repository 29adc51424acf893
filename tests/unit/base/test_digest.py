import hashlib

import pytest

from dlbuild.base.digest import canonical_json, digest, sha256


def test_the_order_of_keys_does_not_matter() -> None:
    assert canonical_json({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'.encode()
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_a_digest_is_sha256() -> None:
    assert sha256(b"abc") == hashlib.sha256(b"abc").hexdigest()


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))
