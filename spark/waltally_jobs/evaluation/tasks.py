"""What tasks of a seed and an audit do: copy a range of a table, or evaluate a query over it.

Each in a session of its own, at the source's snapshot or in the target. No rule of a query is
written here. Executors import it.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeVar

import psycopg2
import pyarrow as pa
from psycopg2 import DataError, NotSupportedError, errors

from waltally import failpoints
from waltally.errors import MissingRight
from waltally.server_errors import ServerError, explain
from waltally.tables import Table, literal, quoted
from waltally_jobs.common.arrow import one_line
from waltally_jobs.common.errors import LeafChanged, ReadFailed, WriteFailed

MAX_REJECTED = 1000
"""More rows than these that the query cannot take end a seed, as they end the stream."""
ROW_AT_FAULT = (
    *(DataError, NotSupportedError, errors.CardinalityViolation, errors.SyntaxError),
    *(errors.ProgramLimitExceeded, errors.StatementTooComplex),
)
"""What a row itself is to blame for, as in cdc.find_bad_images; never memory, disk or locks."""

MOVED = "attempt bigint, row_count bigint, times bigint"
"""What a task says: how many rows its attempt has written, and, of a copy, every digit of how often
one stands in it. 0: it has written groups."""

_GAVE_WAY = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected)
_LOCK_MS = 10
"""Well below any deadlock_timeout: a reader waits in nobody's way, and tries again."""
_PAUSE_SECONDS = 0.2
_IN_MEMORY = 16 << 20

_CHANGED = """
select known.name
from unnest(%s::text[], %s::text[]) as known (name, identity)
where known.identity is distinct from concat_ws(
    ' ', to_regclass(known.name)::oid, pg_relation_filenode(to_regclass(known.name))
)
limit 1
"""

Result = TypeVar("Result")
Cursor = Any
Identity = tuple[str, str]
"""Of a table that holds rows: its name, and what tells it from another or a rewritten one."""


@dataclass(frozen=True)
class Place:
    """Where tasks read: the source at an exported snapshot, or the target without one.

    A range whose table is locked is tried again for so many seconds.
    """

    conninfo: str = field(repr=False)
    snapshot: str | None = None
    patience: float = 0.0

    def read(self, leaves: Sequence[Identity], use: Callable[[Cursor], Result]) -> Result:
        """Return what `use` makes in a transaction there, perhaps after some tries.

        A table that was truncated or rewritten after the snapshot looks empty in it. So the names
        of the leaves and what they were then are compared while the reading's own locks hold.
        Raises ReadFailed, LeafChanged, MissingRight.
        """
        names, identities = [name for name, _ in leaves], [identity for _, identity in leaves]
        end = time.monotonic() + self.patience
        try:
            with contextlib.closing(psycopg2.connect(self.conninfo)) as session:
                while True:
                    try:
                        with session, session.cursor() as cursor:
                            self._begin(cursor)
                            found = use(cursor)
                            cursor.execute(_CHANGED, (names, identities))
                            for (name,) in cursor.fetchall():
                                raise LeafChanged(f"{name} was truncated, altered or replaced")
                            return found
                    except _GAVE_WAY:
                        if time.monotonic() > end:
                            raise
                        time.sleep(_PAUSE_SECONDS)
        except errors.UndefinedTable as error:
            raise (LeafChanged if self.snapshot else ReadFailed)(one_line(error)) from None
        except errors.InsufficientPrivilege as error:
            known = explain(ServerError.of(error), "source" if self.snapshot else "target")
            # The driver finds the sentence with its remedy in Spark's report.
            raise MissingRight(known.sentence) from None
        except psycopg2.Error as error:
            raise ReadFailed(one_line(error)) from None

    def _begin(self, cursor: Cursor) -> None:
        if self.snapshot is not None:
            cursor.execute("set transaction isolation level repeatable read read only")
            cursor.execute(f"set transaction snapshot '{self.snapshot}'")
            cursor.execute(f"set local lock_timeout = {_LOCK_MS}")


@dataclass(frozen=True)
class Range:
    """Rows of a model's table that are evaluated at once, from `relation`, a FROM item.

    `query` is the model's over them, with `mark` where the condition stands. Each row stands for so
    many `times` that are alike.
    """

    model: str
    part: str
    zone: str
    columns: tuple[str, ...]
    query: str
    mark: str
    relation: str
    leaves: tuple[Identity, ...] = ()
    condition: str = "true"
    times: int = 1

    def sql(self) -> str:
        """Return the query over these rows."""
        query = self.query.replace(self.mark, self.condition)
        return _MULTIPLIED.format(query=query, times=self.times) if self.times > 1 else query


@dataclass(frozen=True)
class _Rejected:
    """A row that a query cannot take: PostgreSQL's reason, and the row itself."""

    rows: Range
    said: tuple[str, str]


def of_attempt(groups: Table, attempt: int) -> Table:
    """Return the table with the groups that an attempt of an audit has written."""
    return Table(groups.schema, f"{groups.name}_{attempt}")


def evaluate(
    place: Place, target: str, groups: Table, is_frozen: bool, ranges: Sequence[Range]
) -> Iterator[pa.RecordBatch]:
    """Write the groups of ranges, and apart the rows that a query cannot take; yield MOVED.

    With `is_frozen` groups are in a table of the attempt, where every older snapshot sees them.
    """
    attempt = secrets.randbits(62)
    is_sent = is_frozen or place.snapshot is not None
    leaves = list(dict.fromkeys(leaf for rows in ranges for leaf in rows.leaves))
    columns = "attempt, model, part, dimensions, row_count, sums"
    with SpooledTemporaryFile(_IN_MEMORY) as file:

        def use(cursor: Cursor) -> tuple[int, list[_Rejected]]:
            file.seek(0)
            file.truncate()
            counts: list[int] = []
            rejected: list[_Rejected] = []

            def take(rows: Range) -> None:
                names = f"{attempt}, {literal(rows.model)}, {literal(rows.part)}"
                own = f"select {names}, dimensions, row_count, sums from ({rows.sql()}) as counted"
                if is_sent:
                    counts.append(_copied(cursor, own, file))
                else:
                    cursor.execute(f"insert into {groups.quoted} ({columns}) {own}")
                    counts.append(cursor.rowcount)

            for rows in ranges:
                cursor.execute("select set_config('timezone', %s, true)", (rows.zone,))
                rejected += itertools.islice(_refused(cursor, take, rows), MAX_REJECTED + 1)
            return sum(counts), rejected

        count, rejected = place.read(leaves, use)
        file.seek(0)
        with _writing(target) as cursor:
            if is_frozen:
                own = of_attempt(groups, attempt).quoted
                cursor.execute(f"create unlogged table {own} (like {groups.quoted})")
                cursor.copy_expert(f"copy {own} ({columns}) from stdin (freeze)", file)
            elif is_sent:
                cursor.copy_expert(f"copy {groups.quoted} ({columns}) from stdin", file)
            for each in rejected:
                cursor.execute(
                    f"insert into {groups.quoted} (attempt, model, part, row_count, reason,"
                    " example) values (%s, %s, %s, %s, %s, %s)",
                    (attempt, each.rows.model, each.rows.part, each.rows.times, *each.said),
                )
    failpoints.reach("appended")
    yield _moved(attempt, count + len(rejected), 0)


def transfer(
    place: Place,
    leaves: Sequence[Identity],
    query: str,
    target: str,
    table: Table,
    columns: int,
) -> Iterator[pa.RecordBatch]:
    """Copy rows, those that are alike as one; yield MOVED.

    A row stays the text that COPY has for it, which nobody reads on the way.
    """

    def use(cursor: Cursor) -> Counter[bytes]:
        with SpooledTemporaryFile(_IN_MEMORY) as held:
            cursor.copy_expert(f"copy ({query}) to stdout", held)
            held.seek(0)
            return Counter(line.rstrip(b"\n") for line in held)

    alike = place.read(leaves, use)
    attempt = secrets.randbits(62)
    form = b"%d\t%d\t%s\n" if columns else b"%d\t%d%s\n"
    times = 0
    with SpooledTemporaryFile(_IN_MEMORY) as rows:
        for line, count in alike.items():
            times |= count
            rows.write(form % (attempt, count, line))
        rows.seek(0)
        with _writing(target) as cursor:
            cursor.copy_expert(f"copy {table.quoted} from stdin", rows)
    failpoints.reach("copied")
    yield _moved(attempt, len(alike), times)


def _moved(attempt: int, count: int, times: int) -> pa.RecordBatch:
    values = {"attempt": [attempt], "row_count": [count], "times": [times]}
    return pa.RecordBatch.from_pydict(values)


@contextlib.contextmanager
def _writing(target: str) -> Iterator[Cursor]:
    """Write in one transaction of the target. Raises WriteFailed."""
    try:
        with (
            contextlib.closing(psycopg2.connect(target)) as session,
            session,
            session.cursor() as cursor,
        ):
            yield cursor
    except (psycopg2.Error, OSError) as error:
        raise WriteFailed(one_line(error)) from None


def _copied(cursor: Cursor, query: str, file: IO[bytes]) -> int:
    """Append what a query gives to a file, as COPY prints it; return how many rows."""
    begin = file.tell()
    try:
        cursor.copy_expert(f"copy ({query}) to stdout", file)
        return int(cursor.rowcount)
    except BaseException:
        # A row that the query cannot take may be the last of many.
        file.seek(begin)
        file.truncate()
        raise


def _refused(cursor: Cursor, take: Callable[[Range], None], rows: Range) -> Iterator[_Rejected]:
    """Take what rows give; yield those that the query refuses."""
    cursor.execute("savepoint range")
    try:
        take(rows)
    except ROW_AT_FAULT as error:
        cursor.execute("rollback to savepoint range")
        yield from _halves(cursor, take, rows, str(error).partition("\n")[0])
        return
    cursor.execute("release savepoint range")


def _halves(
    cursor: Cursor, take: Callable[[Range], None], rows: Range, reason: str
) -> Iterator[_Rejected]:
    """Yield the same of the halves of rows of which the query cannot take one."""
    place = f"from {rows.relation} where {rows.condition}"
    cursor.execute(
        f"select count(*), (array_agg(ctid order by ctid))[count(*) / 2 + 1]::text {place}"
    )
    ((count, middle),) = cursor.fetchall()
    if count != 1:
        # What fails without any row gives nothing here.
        for half in (f"ctid < '{middle}'", f"ctid >= '{middle}'") if count else ():
            condition = f"{rows.condition} and {half}"
            yield from _refused(cursor, take, replace(rows, condition=condition))
        return
    columns = ", ".join(
        f"left({quoted(name)}::text, 100) as {quoted(name)}" for name in rows.columns
    )
    cursor.execute("savepoint range")
    try:
        cursor.execute(f"select to_jsonb(example)::text from (select {columns} {place}) as example")
        ((example,),) = cursor.fetchall()
    except ROW_AT_FAULT:
        # It has a value that the server itself cannot show.
        cursor.execute("rollback to savepoint range")
        example = "{}"
    yield _Rejected(rows, (reason, example))


_MULTIPLIED = """
select dimensions, row_count * {times} as row_count, array(
    select (number::numeric * {times})::text
    from unnest(sums) with ordinality as one (number, ordinal)
    order by ordinal
) as sums
from ({query}) as once
"""
