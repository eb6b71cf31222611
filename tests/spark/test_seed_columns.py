from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest
from history import columns, ranges, reading, snapshot
from history.connections import connect
from history.settings import Settings

from loader.tables import parse_tables
from tests.spark.support import TABLES, Source

PLAIN = "alter table {} drop constraint {}_service_id_fkey;".format
LIVE, ARCHIVE = (PLAIN(name, name) for name in ("notifications", "notification_history"))
IDS = {"service_id", "template_id"}


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
        ("", IDS),
        ("create schema other; create table other.notifications (service_id text)", IDS),
        (LIVE + "alter table notifications alter service_id type text", {"template_id"}),
        (ARCHIVE + "alter table notification_history alter service_id type text", {"template_id"}),
        (
            "alter table notifications drop template_id;"
            "alter table notifications add template_id varchar(36)",
            {"service_id"},
        ),
        (
            LIVE + "create domain service as uuid;"
            "alter table notifications alter service_id type service",
            {"template_id"},
        ),
    ],
)
def test_what_is_a_uuid_in_both_tables_leaves_the_server_as_bytes(
    source: Source, sql: str, as_bytes: set[str]
) -> None:
    source.fill()
    with source.connect() as connection:
        connection.execute(sql)
    settings = Settings(source.dsn, source.dsn, source.slot, parse_tables(",".join(TABLES)), "cdc")
    with (
        closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
        snapshot.hold(settings, monitor, print) as held,
    ):
        found = columns.uuids(monitor, settings.tables)
        assert found == as_bytes
        for part in ranges.plan(held.found, 1, found):
            read = reading.batches(reading.Snapshot(held.conninfo, held.name), part.query)
            rows = pa.Table.from_batches(
                columns.labelled(batch, part.source_table, found) for batch in read
            )
            for name in ("service_id", "template_id"):
                kind = pa.binary() if name in as_bytes else pa.string()
                assert rows.schema.field(name).type == kind
                nulls = f"select count(*) - count({name}), count(*) from {part.source_table}"
                assert [(rows[name].null_count, rows.num_rows)] == source.ask(nulls)
            assert rows["source_table"].unique().to_pylist() == [part.source_table]


def test_an_id_that_is_text_in_one_table_counts_as_the_uuid_it_is(source: Source) -> None:
    source.fill()
    expected = source.recount()
    make_text(source)
    code, _, err = source.submit()
    assert code == 0, err
    assert source.baseline() == expected
    assert all(expected.values())


@pytest.mark.slow
def test_a_text_of_sixteen_characters_does_not_pass_for_a_uuid(source: Source) -> None:
    source.fill()
    source.previous_seed()
    make_text(source)
    with source.connect() as connection:
        connection.execute(
            "update notification_history set service_id = 'sixteen letters.' where id ="
            " (select id from notification_history where num_nulls(service_id, template_id,"
            " notification_status) = 0 limit 1)"
        )
    code, _, err = source.submit()
    assert code == 34, err
    assert "sixteen letters." in err
    assert source.has_previous_seed()
