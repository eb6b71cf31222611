"""Takes the needed values of a table's rows to the target, which evaluates the query over them.

So where groups are many, the source only copies columns; and where it is another major version, or
differs in encoding, collation or zone data, the query means what it means in the target.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import psycopg2
import pyarrow as pa
from common.arrow import LOCK_TIMEOUT, Read, one_line
from common.connections import TargetSession
from common.errors import ReadFailed
from counting import ranges
from counting.grouping import SAMPLED_PAGES, Estimate
from counting.queries import ROW_AT_FAULT
from counting.ranges import Leaf
from counting.snapshot import ExportedSnapshot
from psycopg2 import errors

from waltally.database import Connection
from waltally.errors import Interrupted, LoaderError
from waltally.facts import Fact, FactTable
from waltally.tables import quoted
from waltally_jobs.changes import SCHEMA

_DATABASE = "select system_identifier::text, current_database() from pg_control_system()"
_MEANING = """
select
    current_setting('server_version_num')::integer / 10000,
    pg_encoding_to_char(own.encoding),
    own.datcollate,
    own.datctype,
    own.datlocprovider,
    coalesce(to_jsonb(own) ->> 'datlocale', to_jsonb(own) ->> 'daticulocale'),
    pg_database_collation_actual_version(own.oid),
    (
        select md5(string_agg(
            concat_ws(' ', zone.name, moment at time zone zone.name), ','
            order by zone.name, moment
        ))
        from pg_timezone_names as zone
        cross join generate_series(
            '1970-01-01 00:00+00', '2038-01-01 00:00+00', interval '182 days'
        ) as moment
    )
from pg_database as own
where own.datname = current_database()
"""
"""What expressions depend on beside their arguments."""

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}
_FEW_PAGES = 1000
"""Up to here the source evaluates, however many groups there are."""


def differ(source: Connection, target: Connection) -> bool:
    """Return whether an expression may mean something else at the source than in the target."""
    if source.ask(_DATABASE) == target.ask(_DATABASE):
        return False
    return source.ask(_MEANING) != target.ask(_MEANING)


def parts_to_move(
    source: Connection, target: TargetSession, facts: Sequence[Fact], exported: ExportedSnapshot
) -> list[tuple[Fact, FactTable]]:
    """Return the tables of which the target evaluates each row, and not the source."""
    if not facts:
        return []
    leaves = dict(exported.found)
    all_parts = [(fact, part) for fact in facts for part in fact.tables]
    if differ(source, target):
        return all_parts
    return [
        (fact, part)
        for fact, part in all_parts
        if not _has_few_groups(source, target, fact, part, leaves[part.table])
    ]


def reads(
    fact: Fact, number: int, part: FactTable, exported: ExportedSnapshot, conninfo: str, pages: int
) -> list[Read]:
    """Return what reads the rows of a table as inserts of the model with this number."""
    source_no = fact.tables.index(part) + 1
    types = {
        column["name"]: column["type"]
        for column in fact.declaration["sources"][source_no - 1]["columns"]
    }
    names = fact.used_columns(part)
    columns = ", ".join(map(quoted, names))
    texts = ranges.plan(
        dict(exported.found)[part.table], pages, lambda source: f"select {columns} {source}"
    )
    return [
        partial(
            _rows,
            conninfo,
            exported.name,
            each.query,
            number,
            source_no,
            tuple(types[name] for name in names),
            exported.position,
        )
        for each in texts
    ]


def _has_few_groups(
    source: Connection, target: TargetSession, fact: Fact, part: FactTable, leaves: Sequence[Leaf]
) -> bool:
    """Return whether a range of the table has so few groups that the source should evaluate."""
    leaf = max(leaves, key=lambda each: each.pages, default=None)
    if leaf is None or not leaf.has_addresses or leaf.pages <= _FEW_PAGES:
        return True
    percent = min(100 * SAMPLED_PAGES / leaf.pages, 100)
    share = min(SAMPLED_PAGES / min(leaf.pages, ranges.PAGES_PER_GROUPED_RANGE), 1.0)
    sample = f"from only {leaf.table.quoted} tablesample system ({percent}) repeatable (1)"
    ((query,),) = target.ask_staging(
        "select {}.write_range(%s, %s, %s)",
        (json.dumps(fact.declaration), fact.tables.index(part) + 1, sample),
    )
    try:
        with source.transaction():
            source.ask(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
            source.ask("select set_config('timezone', %s, true)", (fact.declaration["timezone"],))
            ((rows, groups, singles),) = source.ask(
                "select coalesce(sum(row_count), 0)::bigint, count(*),"
                f" count(*) filter (where row_count = 1) from ({query}) as sampled"
            )
    except LoaderError as error:
        # A row that the query cannot take is found at the source; a lock that waits for the seed's
        # own would make the sample wait for ever.
        is_locked = isinstance(error.__cause__, errors.LockNotAvailable)
        if not isinstance(error.__cause__, ROW_AT_FAULT) and not (
            isinstance(error, Interrupted) and is_locked
        ):
            raise
        return True
    # How ANALYZE estimates distinct values: the Duj1 estimator of Haas and Stokes.
    unseen = singles / rows * (1 - share) if rows else 0.0
    return Estimate(rows / share, groups / max(1 - unseen, share)).are_few


def _rows(
    conninfo: str,
    snapshot: str,
    query: str,
    model: int,
    source_no: int,
    types: Sequence[str],
    position: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query as inserts, those that are alike as one. For executors."""
    alike: Counter[bytes] = Counter()

    class Lines:
        """What COPY writes to, a row at a time."""

        @staticmethod
        def write(line: bytes) -> None:
            alike[line] += 1

    try:
        with contextlib.closing(psycopg2.connect(conninfo)) as reader, reader.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read read only")
            cursor.execute(f"set transaction snapshot '{snapshot}'")
            # A TRUNCATE that waits for the seed's lock blocks this reader, and would wait for ever.
            cursor.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
            cursor.copy_expert(f"copy ({query}) to stdout", Lines)
    except (psycopg2.Error, OSError) as error:
        raise ReadFailed(one_line(error)) from None
    found = [(_values(line, types), count) for line, count in alike.items()]
    for begin in range(0, len(found), 20_000):
        values, counts = zip(*found[begin : begin + 20_000], strict=True)
        size = len(counts)
        columns = {
            **{name: [None] * size for name in SCHEMA.names},
            **{"model": [model] * size, "source_no": [source_no] * size, "action": ["I"] * size},
            **{"is_cancelled": [False] * size, "new_values": values},
            **{"change_count": counts, "last_lsn": [position] * size},
        }
        yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _values(line: bytes, types: Sequence[str]) -> list[str | None]:
    """Return the values of a row of COPY in the form that the stream has."""
    texts = line.decode().removesuffix("\n").split("\t") if types else []
    return [_value(text, type_) for text, type_ in zip(texts, types, strict=True)]


def _value(text: str, type_: str) -> str | None:
    if "\\" in text:
        if text == "\\N":
            return None
        text = _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)
    if type_ == "bytea":
        return text.removeprefix("\\x")
    is_number = type_ in ("numeric", "float4", "float8")
    return None if is_number and text in _NOT_FINITE else text
