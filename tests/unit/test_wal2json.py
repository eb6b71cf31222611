"""Messages of the plugin, and what is left of them where columns are chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.capture.stages.columns import SourceColumn, column_filter, columns_to_keep
from loader.capture.wal2json import Begin, Commit, action, decode, options
from testkit.model import parsed
from waltally.errors import SettingError
from waltally.tables import Table, format_names, parse_names

BEGIN = (
    b'{"action":"B","xid":730,"timestamp":"2000-01-01 00:00:01.5+00",'
    b'"lsn":"0/15368E0","nextlsn":"0/1536910"}'
)
COMMIT = BEGIN.replace(b'"B"', b'"C"')


def test_a_bound_carries_its_positions_in_whatever_order_of_fields() -> None:
    begin = Begin(0x15368E0, 0x1536910, 730, 1_500_000)
    for message, bound in ((BEGIN, begin), (COMMIT, Commit(0x1536910))):
        assert decode(message) == bound
        fields = json.loads(message)
        turned = {"action": fields.pop("action"), **dict(reversed(fields.items()))}
        assert decode(json.dumps(turned, separators=(",", ":")).encode()) == bound
        with pytest.raises(ValueError, match=r"without its positions: .*`nextlsn`"):
            decode(message.replace(b'"nextlsn"', b'"other"'))


def test_names_are_escaped_and_nobody_knows_the_prefix() -> None:
    tables = [("public", "a,b"), ("My Schema", "c.d*")]
    chosen, other = options(tables, None), options(tables, 3)
    assert chosen["add-tables"] == r"public.a\,b,My\ Schema.c\.d\*"
    assert "filter-origins" not in chosen
    assert other["filter-origins"] == "3"
    assert chosen["add-msg-prefixes"] != other["add-msg-prefixes"]
    assert decode(b'{"action":"M"}') is None


ACTIONS = [
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
    (b'{"action": "T"}', b""),
    (b'{"action":"X"}', b""),
    (b'{"schema":"s","action":"T"}', b""),
    (b'{"action":"T"}}', b""),
    (b'{"action":"I","a":"b","columns":[{"name":"a","value":NaN}]}', b""),
    (b"", b""),
]


def test_a_change_is_kept_as_it_came_and_its_action_told_if_the_plugin_would_print_it_so() -> None:
    for payload, letter in ACTIONS:
        assert decode(payload) == payload
        assert action(payload) == letter, payload


@given(st.text(max_size=60), st.integers(0, 80), st.integers(0, 255))
def test_a_damaged_change_is_not_taken_for_json(text: str, place: int, byte: int) -> None:
    whole = b'{"action":"I","schema":"s","table":"t","columns":[{"name":"a","value":%s}]}'
    change = whole % json.dumps(text).encode()
    damaged = change[:place] + bytes([byte]) + change[place + 1 :]
    try:
        json.loads(damaged.decode(errors="replace"))
    except ValueError:
        assert action(damaged) == b""


SECRET = "someone@example.org"
KEEP = column_filter({("public", "t"): frozenset({"id", "a"})})


def change(letter: str, **images: list[dict[str, Any]]) -> bytes:
    """A change as the plugin prints it."""
    head = {"action": letter, "xid": 7, "timestamp": "2000-01-01 00:00:01+00", "lsn": "0/1"}
    body = {**head, "schema": "public", "table": "t", **images}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def other(change: bytes) -> bytes:
    return change.replace(b'"t"', b'"u"')


def image(**values: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


FULL = image(id=1, to=SECRET, a="x", personalisation=None)
KEPT = image(id=1, a="x")


def test_only_named_columns_are_left_in_the_plugin_s_own_form() -> None:
    typed = [{"name": "a", "type": SECRET, "value": 1}]
    for whole, left in (
        (change("I", columns=FULL), change("I", columns=KEPT)),
        (change("U", columns=FULL, identity=FULL), change("U", columns=KEPT, identity=KEPT)),
        (change("U", columns=FULL), change("U", columns=KEPT)),
        (change("D", identity=FULL), change("D", identity=KEPT)),
        (change("I", columns=image(to=SECRET)), change("I", columns=[])),
        (change("T"), change("T")),
        # Other fields of the plugin are left out, and a table that nobody asked about is empty.
        (change("I", columns=typed, pk=image(to=SECRET)), change("I", columns=image(a=1))),
        (other(change("I", columns=FULL)), other(change("I", columns=[]))),
    ):
        assert KEEP(whole) == left
        assert action(left) == action(whole)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text())


@given(st.dictionaries(st.text(), VALUES), st.sets(st.text()))
def test_a_kept_value_is_the_bytes_that_came(values: dict[str, Any], names: set[str]) -> None:
    names |= set(list(values)[::2])
    keep = column_filter({("public", "t"): frozenset(names)})
    left = {name: value for name, value in values.items() if name in names}
    assert json.loads(keep(change("I", columns=image(**values)))) == json.loads(
        change("I", columns=image(**left))
    )


def test_numbers_and_escapes_are_not_printed_anew() -> None:
    body = rb'{"action":"I","schema":"public","table":"t","columns":[{"name":"a","value":%b}]}'
    for value in (b"1.10", b"1e5", b"123456789012345678901234567890.5", rb'"\u0041\/"'):
        assert KEEP(body % value) == body % value


def test_what_is_not_the_plugin_s_form_leaves_its_action_alone() -> None:
    whole, secret = change("I", columns=FULL), SECRET.encode()
    for payload, letter in (
        (whole[:-1], "I"),
        (change("U", columns=FULL).replace(b'"value"', b'"valeu"'), "U"),
        (change("D", identity=FULL).replace(b'"table"', b'"elbat"'), "D"),
        (b'{"action":"I","schema":"public","table":"t","columns":"%s"}' % secret, "I"),
        (b'{"action":"T","schema":["%s"],"table":"t"}' % secret, "T"),
        (whole.replace(b'"x"', b"[" * 100_000 + b"]" * 100_000), "I"),
        (whole.replace(b'"name":"a"', b'"name":"\xff"'), "I"),
        (change("X", columns=FULL), None),
        (b'{"schema":"%s","action":"I"}' % secret, None),
        (secret, None),
        (b"", None),
    ):
        stub = KEEP(payload)
        assert secret not in stub
        assert json.loads(stub).get("action") == letter
        assert "note" in json.loads(stub)


ORDERS = Table("public", "orders")


def test_what_a_model_needs_of_a_table_and_keys_are_kept_unasked() -> None:
    models = [
        parsed("ft", ("Shop Id", "kind"), "public.orders", "public.old_orders"),
        parsed("ft_amounts", ("amount",), "public.orders"),
    ]
    names = ("key", "Shop Id", "shop", "amount", "kind", "Case", "case", "secret")
    tables = (ORDERS, Table("public", "old_orders"), Table("public", "logged"))
    found = [
        SourceColumn(table, name, name == "key", table.schema, table.name, name)
        for table in tables
        for name in names
    ]
    kept = columns_to_keep(found, ("Case",), models)
    of_table = [{each.name for each in kept if each.table == table} for table in tables]
    assert of_table == [
        {"key", "Case", "Shop Id", "amount", "kind"},
        {"key", "Case", "Shop Id", "kind"},
        {"key", "Case"},
    ]


def test_columns_are_read_with_quotes_or_refused() -> None:
    setting = ("LOADER_COLUMNS", "--columns")
    for text, names in (
        (" ", ()),
        (' id , "Odd, ""one""",MiXed ', ("id", 'Odd, "one"', "MiXed")),
        ('" padded "', (" padded ",)),
        ("größe.x, a b", ("größe.x", "a b")),
    ):
        assert parse_names(text, *setting) == names
        assert parse_names(format_names(names), *setting) == names
    for text in (",", "a,", 'a"b"', '"a', "a,,b", '""'):
        with pytest.raises(SettingError, match="LOADER_COLUMNS"):
            parse_names(text, *setting)
