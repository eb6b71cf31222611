from __future__ import annotations

import json
from contextlib import closing

import pyarrow as pa
import pytest
from common import arrow_source
from common.connections import connect
from common.settings import Settings
from counting import ranges, reading, snapshot, values

from testkit.facts import notify
from tests.spark.support import TABLES, Source

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")

PLAIN = "alter table {} drop constraint {}_service_id_fkey;".format
LIVE, ARCHIVE = (PLAIN(name, name) for name in ("notifications", "notification_history"))
IDS = {"service_id", "template_id"}
BOTH, NO_SERVICE = dict.fromkeys(TABLES, IDS), {"template_id"}


def make_text(source: Source) -> None:
    """Make the archive's service_id text, some in upper case, as an older schema may have them."""
    with source.connect() as connection:
        connection.execute(
            ARCHIVE + "alter table notification_history alter service_id type text using"
            " case when notification_status = 'sent' then upper(service_id::text)"
            " else service_id::text end"
        )


@pytest.mark.parametrize(
    ("sql", "as_bytes"),
    [
        ("", BOTH),
        ("create schema other; create table other.notifications (service_id text)", BOTH),
        (
            LIVE + "alter table notifications alter service_id type text",
            {**BOTH, TABLES[0]: NO_SERVICE},
        ),
        (
            ARCHIVE + "alter table notification_history alter service_id type text",
            {**BOTH, TABLES[1]: NO_SERVICE},
        ),
        (
            "alter table notifications drop template_id;"
            "alter table notifications add template_id varchar(36)",
            {**BOTH, TABLES[0]: {"service_id"}},
        ),
        (
            LIVE + "create domain service as uuid;"
            "alter table notifications alter service_id type service",
            {**BOTH, TABLES[0]: NO_SERVICE},
        ),
    ],
)
def test_what_is_a_uuid_leaves_the_server_as_bytes(
    source: Source, sql: str, as_bytes: dict[str, set[str]], who_counts: str
) -> None:
    source.fill()
    with source.connect() as connection:
        connection.execute(sql)
    settings = Settings(source.dsn, source.dsn, source.slot, "cdc")
    facts = [notify()]
    with (
        closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
        snapshot.export(settings, facts, monitor, print) as exported,
    ):
        for table, leaves in exported.found:
            selection, pages = reading.select(exported, settings, facts, table, leaves)
            [part] = ranges.plan(leaves, pages, selection.query)
            read = arrow_source.batches(exported.conninfo, part.query, exported.name)
            rows = pa.Table.from_batches(map(selection.shape, read))
            times = [1] * len(rows) if who_counts == "Spark" else rows["row_count"].to_pylist()
            for place, value in enumerate(values.needed(facts, table)):
                name = values.column_name(place)
                is_bytes = value.column in as_bytes[str(table)]
                assert rows.schema.field(name).type == (pa.binary() if is_bytes else pa.string())
                nulls = f"select count(*) - count({value.column}), count(*) from {table}"
                is_null = rows[name].is_null().to_pylist()
                null_count = sum(n for n, null in zip(times, is_null, strict=True) if null)
                assert [(null_count, sum(times))] == source.ask(nulls)


def test_an_id_that_is_text_in_one_table_counts_as_the_uuid_it_is(source: Source) -> None:
    source.fill()
    expected = source.recount()
    make_text(source)
    code, _, err = source.seed()
    assert code == 0, err
    assert source.baseline() == expected
    assert all(expected.values())


@pytest.mark.slow
def test_a_text_of_sixteen_characters_does_not_pass_for_a_uuid(source: Source) -> None:
    source.fill()
    expected = source.recount()
    make_text(source)
    with source.connect() as connection:
        row = connection.execute(
            "update notification_history set service_id = 'sixteen letters.' where id ="
            " (select id from notification_history where num_nulls(service_id, template_id,"
            " notification_status) = 0 limit 1)"
            " returning template_id::text, notification_type::text, notification_status"
        ).fetchone()
    code, out, err = source.seed()
    assert code == 0, err
    assert "1 row of public.notification_history cannot be counted" in out
    assert source.ask("select reason, example ->> 'service_id' from cdc.baseline_rejection") == [
        ("the value of service_id is not a uuid", "sixteen letters.")
    ]
    found = source.baseline()
    assert found[TABLES[0]] == expected[TABLES[0]]
    lacking = expected[TABLES[1]] - found[TABLES[1]]
    assert sum(lacking.values()) == 1
    assert [group[1:] for group in lacking] == [row]


def test_values_are_spelled_as_the_stream_spells_them(source: Source, who_counts: str) -> None:
    """Blanks of a char(n) count, and a cast that somebody made does not."""
    source.fill()
    with source.connect() as connection:
        connection.execute(
            "alter table notifications alter notification_status type char(20);"
            "create function loud(notification_type) returns text language sql as"
            " $$ select 'LOUD' $$;"
            "create cast (notification_type as text) with function loud(notification_type)"
        )
        connection.execute("select pg_create_logical_replication_slot('truth', 'wal2json')")
    code, _, err = source.seed()
    assert code == 0, err
    source.ask("update notifications set notification_status = 'failed' returning 1")
    streamed = set()
    for (payload,) in source.ask(
        "select data from pg_logical_slot_peek_changes('truth', null, null,"
        " 'format-version', '2', 'include-transaction', '0')"
    ):
        change = json.loads(payload)
        # The seed's own rows are in the same database.
        if change["schema"] != "public":
            continue
        old = {each["name"]: each["value"] for each in change["identity"]}
        streamed.add(tuple(old[name] for name in DIMENSIONS))
    # The stream takes away exactly the groups that the seed has counted.
    assert {group for group in streamed if None not in group} == set(source.baseline()[TABLES[0]])
    assert any(group[3] == "sent".ljust(20) for group in streamed)
