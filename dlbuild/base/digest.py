"""Canonical JSON and its SHA-256: the same value has the same bytes everywhere."""

import hashlib
import json
from collections.abc import Mapping, Sequence

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def canonical_json(value: Json) -> bytes:
    """Return the shortest JSON of `value` with sorted keys, in UTF-8, without NaN or infinity."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def sha256(content: bytes) -> str:
    """Return the SHA-256 of `content` in hexadecimal."""
    # usedforsecurity=False: hosts in FIPS mode accept it too.
    return hashlib.sha256(content, usedforsecurity=False).hexdigest()


def digest(value: Json) -> str:
    """Return the SHA-256 of the canonical JSON of `value`."""
    return sha256(canonical_json(value))
