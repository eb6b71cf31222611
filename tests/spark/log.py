"""A change log that a test writes itself, and plain reading of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from waltally_jobs.data_source.change_log import Range

from tests.spark.support import Source
from waltally import lsn

COLUMNS = ("commit_lsn", "ordinal", "xid", "committed_at", "staged_at", "action", "payload")


class Log:
    """A change log whose changes the test writes itself."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.position = 0x10_0000
        self.run(
            "create table cdc.change_log_all partition of cdc.change_log"
            " for values from ('0/0') to ('FFFF/0')"
        )
        self.run(
            "update cdc.slot_position set (start_lsn, position_lsn) = (%s::pg_lsn, %s::pg_lsn)",
            lsn.show(self.position),
            lsn.show(self.position),
        )

    def run(self, statement: str, *values: object) -> None:
        self.source.execute(statement, *values)

    def append(self, *transactions: int, at: str = "2026-11-20T12:00:00Z") -> None:
        """Stage transactions of so many inserts, and move the position past them."""
        for size in transactions:
            self.run(
                "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at,"
                " action, payload) select %s, %s, n, 7, %s, case when n %% 3 > 0 then 'I' end,"
                " json_build_object('action', 'I', 'é', repeat(chr(10), n))"
                " from generate_series(1, %s) as n",
                *(self.source.slot, lsn.show(self.position), at, size),
            )
            self.position += 0x30
        self.run("update cdc.slot_position set position_lsn = %s", lsn.show(self.position))

    def prune(self, position: int) -> None:
        """Take away what is before the position, as `loader prune` does."""
        self.run("update cdc.slot_position set start_lsn = %s", lsn.show(position))
        self.run("delete from cdc.change_log where commit_lsn < %s", lsn.show(position))

    def rows(self) -> list[tuple[Any, ...]]:
        """Every change of it, with the COLUMNS."""
        return self.source.execute(
            "select (commit_lsn - '0/0')::bigint, ordinal, xid, committed_at, staged_at,"
            " action::text, payload from cdc.change_log where slot_name = %s order by 1, 2",
            self.source.slot,
        )


NAME = r'public."Odd\one"'
TABLE = f"""
    create domain public.cents as numeric(12, 2);
    create type public.mood as enum ('so so', 'fine');
    create table {NAME} (
        id bigint primary key, small smallint, "the name" text, price public.cents, exact numeric,
        ratio real, share double precision, mood public.mood, is_paid boolean, day date,
        at timestamp, seen timestamptz, raw bytea, tags text[], long text, document jsonb
    );
    alter table {NAME} alter column long set storage external;
    create table public.other (id int primary key, text text);
    create table public.numbers (
        a numeric(38, 10), b numeric(39, 2), c numeric(3, -2), d numeric(2, 5), e numeric
    );
    create table public.orders (id int primary key, state text);
    alter table public.orders replica identity full;
    create table public.named ("Op" text);
    create table public.twins (id int, "Name" text, name text);
"""


class Stream:
    """A slot of the test's database, whose messages it stages as the loader does."""

    def __init__(self, log: Log) -> None:
        self.log = log
        log.run("select pg_create_logical_replication_slot('typed', 'wal2json')")
        log.run(TABLE)

    def stage(self, *statements: str) -> None:
        """Run the statements in one transaction, and stage what the plugin says of them."""
        for statement in statements:
            self.log.run(statement)
        log = self.log
        log.run(
            "insert into cdc.change_log"
            " (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)"
            " select %s, %s, row_number() over (order by ordinality), 7, '2026-11-25 12:00+00',"
            " data::json ->> 'action', data"
            " from pg_logical_slot_get_changes('typed', null, null, 'format-version', '2',"
            " 'include-types', 'false', 'include-transaction', 'false',"
            # What was staged before would be staged again, each time with its quotes escaped.
            " 'filter-tables', 'cdc.*') with ordinality",
            log.source.slot,
            lsn.show(log.position),
        )
        log.position += 0x30
        log.run("update cdc.slot_position set position_lsn = %s", lsn.show(log.position))


def plain(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Rows of a log in its order; a time is a number, whoever has read it."""
    return sorted(
        tuple(each.timestamp() if isinstance(each, datetime) else each for each in row)
        for row in rows
    )


def rows_of(ranges: Iterable[Range]) -> list[tuple[Any, ...]]:
    """What the format `waltally` has in these ranges, read without Spark."""
    rows = (row for each in ranges for batch in each.batches() for row in batch.to_pylist())
    return plain([row[name] for name in COLUMNS] for row in rows)
