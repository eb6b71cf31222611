from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.capture.wal2json import Altered, Begin, Commit, action, decode, options

BEGIN = (
    b'{"action":"B","xid":730,"timestamp":"2000-01-01 00:00:01.5+00",'
    b'"lsn":"0/15368E0","nextlsn":"0/1536910"}'
)
COMMIT = BEGIN.replace(b'"B"', b'"C"')


@pytest.mark.parametrize(
    ("message", "bound"),
    [(BEGIN, Begin(0x15368E0, 0x1536910, 730, 1_500_000)), (COMMIT, Commit(0x1536910))],
)
def test_a_bound_carries_its_positions_in_whatever_order_of_fields(
    message: bytes, bound: Begin | Commit
) -> None:
    assert decode(message) == bound
    fields = json.loads(message)
    letter = fields.pop("action")
    turned = {"action": letter, **dict(reversed(fields.items()))}
    assert decode(json.dumps(turned, separators=(",", ":")).encode()) == bound
    with pytest.raises(ValueError, match=r"without its positions: .*`nextlsn`"):
        decode(message.replace(b'"nextlsn"', b'"other"'))


def message(content: str) -> bytes:
    said = {"action": "M", "transactional": True, "prefix": "p", "content": content}
    return json.dumps(said, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("note", "altered"),
    [
        ({"schema": "s", "table": "ü", "columns": ["a"]}, Altered("s", "ü", frozenset("a"))),
        ({"schema": "s", "table": "t", "columns": None}, Altered("s", "t", None)),
        ({"schema": "s", "table": None, "columns": None}, Altered("s", None, None)),
    ],
)
def test_a_message_says_what_ddl_altered(note: dict[str, object], altered: Altered) -> None:
    assert decode(message(json.dumps(note).encode().hex())) == altered


@pytest.mark.parametrize(
    "said", ["", "c", "[]", "{", "{}", '{"schema":"s"}', '{"schema":"s","table":"t","columns":7}']
)
def test_any_other_message_is_nothing(said: str) -> None:
    assert decode(message(said)) is None
    assert decode(message(said.encode().hex())) is None
    assert decode(b'{"action":"M"}') is None
    assert decode(b'{"action":"M","content":"\xff') is None


def test_names_are_escaped_an_origin_is_a_number_and_nobody_knows_a_prefix_that_is_not_given() -> (
    None
):
    tables = [("public", "a,b"), ("My Schema", "c.d*")]
    chosen, other = options(tables, None), options(tables, 3, "given")
    assert chosen["add-tables"] == r"public.a\,b,My\ Schema.c\.d\*"
    assert "filter-origins" not in chosen
    assert other["filter-origins"] == "3"
    assert other["add-msg-prefixes"] == "given"
    assert chosen["add-msg-prefixes"] != options(tables, None)["add-msg-prefixes"]


@pytest.mark.parametrize(
    ("payload", "letter"),
    [
        (b'{"action":"I","schema":"s","table":"t","columns":[{"name":"a","value":1}]}', b"I"),
        (b'{"action":"U","schema":"s","table":"t","columns":[],"identity":[]}', b"U"),
        (b'{"action":"U","schema":"s","table":"t","columns":[]}', b"U"),
        (b'{"action":"D","xid":7,"schema":"s","table":"t","identity":[]}', b"D"),
        (b'{"action":"T","schema":"s","table":"t"}', b"T"),
        # What is to be parsed by whoever reads it:
        (b'{"action":"U","schema":"s","table":"t","identity":[],"columns":[]}', b""),
        (b'{"action":"D","schema":"s","table":"t","columns":[],"identity":[]}', b""),
        (b'{"action":"I","schema":"s","table":"t[1]","columns":[]}', b""),
        (b'{"action":"I","schema":"s","table":",\\"columns\\":[","identity":[],"columns":[]}', b""),
        (b'{"action":"I","schema":"s","table":"t"}', b""),
        (b'{"action":"D","schema":"s","table":"t"}', b""),
        (b'{"action":"Z","schema":"s","table":"t","columns":[]}', b""),
        (b'{"action":"II","columns":[]}', b""),
        (b'{"action": "T"}', b""),
        (b'{"action":"X"}', b""),
        (b'{"action":"', b""),
        (b'{"schema":"s","action":"T"}', b""),
        (b'{"action":"T"', b""),
        (b'{"action":"T"}}', b""),
        (b'{"action":"I","a":"b","columns":[{"name":"a","value":NaN}]}', b""),
        (b"", b""),
        (b"not json", b""),
    ],
)
def test_a_change_is_kept_as_it_came_and_its_action_told_if_the_plugin_would_print_it_so(
    payload: bytes, letter: bytes
) -> None:
    assert decode(payload) == payload
    assert action(payload) == letter


@given(st.text(max_size=60), st.integers(0, 80), st.integers(0, 255))
def test_a_damaged_change_is_not_taken_for_json(text: str, place: int, byte: int) -> None:
    whole = b'{"action":"I","schema":"s","table":"t","columns":[{"name":"a","value":%s}]}'
    change = whole % json.dumps(text).encode()
    damaged = change[:place] + bytes([byte]) + change[place + 1 :]
    try:
        json.loads(damaged.decode(errors="replace"))
    except ValueError:
        assert action(damaged) == b""
