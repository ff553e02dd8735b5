"""What is refused as JSON that nobody could keep, and what is not."""

from __future__ import annotations

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.keepable import MAX_DEPTH, nested_beyond, require_keepable

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(values)
def test_exactly_what_cannot_be_kept_is_refused(value: object) -> None:
    encoded = msgspec.json.encode(value)
    try:
        msgspec.msgpack.encode(value)
        orjson.dumps(value)
        kept = True
    except (OverflowError, TypeError):
        kept = False
    if kept:
        require_keepable(encoded)
    else:
        with pytest.raises(ValueError, match="64-bit"):
            require_keepable(encoded)


@pytest.mark.parametrize("text", ["9" * 19, "-9223372036854775808", "18446744073709551615"])
def test_numbers_of_64_bits_are_kept(text: str) -> None:
    require_keepable(f'{{"n":{text}}}'.encode())


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809", "1" * 400])
def test_numbers_beyond_are_not(text: str) -> None:
    with pytest.raises(ValueError, match="64-bit"):
        require_keepable(f'[{{"n":{text}}}]'.encode())


def test_digits_in_text_are_no_number() -> None:
    require_keepable(msgspec.json.encode({"card": "1" * 400}))


@pytest.mark.parametrize("kind", ["[]", '{"a":}'])
def test_nesting(kind: str) -> None:
    start, end = kind[:-1], kind[-1]
    require_keepable((start * MAX_DEPTH + "1" + end * MAX_DEPTH).encode())
    require_keepable(b"[" + b",".join([b'{"a":[1]}'] * 1000) + b"]")
    with pytest.raises(ValueError, match="levels"):
        require_keepable((start * (MAX_DEPTH + 1) + "1" + end * (MAX_DEPTH + 1)).encode())


@pytest.mark.parametrize(
    ("body", "deep"),
    [
        (b"[" * 4 + b"]" * 4, True),
        (b"[" * 3 + b"]" * 3, False),
        (b"[[[],[],[],{}]]", False),
        (b'[[["]]]",[{}]]]', True),
        (b'[[["[[[[","\\"[[[["]]]', False),
        (b'[[[{"a":"x}', True),
        (b'["[[[[[[[[\\', False),
        (b"]]]]]][[[[", False),
        (b"", False),
    ],
)
def test_nesting_is_told_from_the_bytes(body: bytes, deep: bool) -> None:
    assert nested_beyond(body, 3) is deep
