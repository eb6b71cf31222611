"""Copies of what models need of tables, in the target, which evaluates their queries over them.

So where groups are many, the source only copies columns; and where it is another major version, or
differs in encoding, collation or zone data, the query means what it means in the target.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from common import arrow
from common.arrow import Read
from common.connections import TargetSession, connect, resolved
from counting import queries, ranges
from counting.queries import RejectedRow, Rows, Take, Taken
from counting.reading import for_readers
from counting.snapshot import ExportedSnapshot
from pyspark.sql import SparkSession

from waltally.database import Connection
from waltally.facts import Fact, FactTable
from waltally.tables import Table, quoted
from waltally_jobs import evaluating

_HELD_BYTES = 256_000_000
"""Of rows of which those that are alike become one."""


@dataclass(frozen=True)
class Copy:
    """A copy of the columns `names` of a model's table: texts in c1, c2, …, with `times`.

    Only what `attempts` have written counts.
    """

    fact: Fact
    part: FactTable
    table: Table
    names: tuple[str, ...]
    attempts: tuple[int, ...] = ()

    def work(self, target: Connection) -> Iterator[Rows]:
        """Yield its rows in parts: what stands for 5 is in those of 1 and of 4."""
        own = f"attempt = any ('{{{','.join(map(str, self.attempts))}}}')"
        ((times,),) = target.ask(f"select bit_or(times) from {self.table.quoted} where {own}")
        columns = "".join(
            f", c{number} as {quoted(name)}" for number, name in enumerate(self.names, 1)
        )
        (leaf,) = ranges.leaves(target, self.table)
        for digit in range((times or 0).bit_length()):
            for condition in ranges.cut(leaf, ranges.PAGES_PER_GROUPED_RANGE):
                unit = 1 << digit
                if times & unit:
                    texts = f"select ctid{columns} from {self.table.quoted}"
                    relation = f"({texts} where {own} and times & {unit} <> 0) as copied"
                    yield Rows(self.fact, self.part, relation, condition, unit)


@contextlib.contextmanager
def made(target: TargetSession, parts: Sequence[tuple[Fact, FactTable]]) -> Iterator[list[Copy]]:
    """Make an empty copy for each of these tables, for the block."""
    names = [fact.used_columns(part) for fact, part in parts]
    columns = [
        "".join(f"c{number} text, " for number in range(1, len(own) + 1))
        + "times bigint, attempt bigint"
        for own in names
    ]
    with evaluating.made(target, columns) as tables:
        yield [
            Copy(fact, part, table, own)
            for (fact, part), table, own in zip(parts, tables, names, strict=True)
        ]


def fill(
    start: Callable[[], SparkSession] | None,
    target: TargetSession,
    copies: Sequence[Copy],
    exported: ExportedSnapshot,
    partitions: int,
) -> list[Copy]:
    """Fill the copies at the snapshot; return them with the attempts that count.

    Without `start`, which gives the session, this process reads. Raises what `spark_errors` makes
    a sentence of.
    """
    size = ranges.pages_per_range(exported.found, partitions)
    leaves = dict(exported.found)
    conninfo = for_readers(exported.conninfo)
    filled = []
    for copy in copies:
        columns = _columns(copy)

        def query(rows: str, columns: str = columns) -> str:
            return f"select {columns} {rows}"

        texts = [each.query for each in ranges.plan(leaves[copy.part.table], size, query)]
        reads = [partial(_alike, read) for read in arrow.queries(conninfo, texts, exported.name)]
        append = arrow.appending(resolved(target), copy.table)
        if start is None or not reads:
            found = [batch for read in reads for batch in append(read())]
        else:
            found = arrow.spread(start(), reads, append, arrow.WRITTEN).toArrow().to_batches()
        attempts = tuple(attempt for attempt, count in arrow.written(found).items() if count)
        filled.append(Copy(copy.fact, copy.part, copy.table, copy.names, attempts))
    return filled


def evaluated(
    target: TargetSession, copies: Sequence[Copy], take: Take[Taken]
) -> Iterator[tuple[Fact, FactTable, Taken | RejectedRow]]:
    """Yield what is taken of the copies, in a session of its own; apart the rows at fault.

    Raises LoaderError.
    """
    conninfo = for_readers(resolved(target))
    with contextlib.closing(connect(conninfo, "target")) as session:
        for copy in copies:
            session.ask(f"analyze {copy.table.quoted}")
        session.ask("begin")
        work = (rows for copy in copies for rows in copy.work(session))
        yield from queries.evaluated(session, target, work, take)
        session.ask("commit")


def count(
    target: TargetSession, copies: Sequence[Copy], groups: Table
) -> tuple[dict[int, int], list[pa.RecordBatch]]:
    """Write the groups of the copies into a table like the incoming one.

    Returns by attempt how many, and the rows that the queries cannot take, with queries.COLUMNS.
    """
    attempt = secrets.randbits(62)

    def insert(session: Connection, rows: Rows, query: str) -> int:
        ((count,),) = session.ask(
            f"with counted as (insert into {groups.quoted}"
            " (fact, part, dimensions, row_count, sums, attempt)"
            f" select %s, %s, dimensions, row_count, sums, %s from ({_escaped(query)}) as counted"
            " returning 1) select count(*) from counted",
            (rows.fact.name, rows.part.name, attempt),
        )
        return int(count)

    written, rejected = 0, []
    for fact, part, found in evaluated(target, copies, insert):
        if isinstance(found, RejectedRow):
            rejected.append(queries.batch_of_rejected(fact, part, found))
        else:
            written += found
    return ({attempt: written} if copies else {}), rejected


def _escaped(query: str) -> str:
    # The driver would take it for a placeholder.
    return query.replace("%", "%%")


def _columns(copy: Copy) -> str:
    """Return the texts of the needed columns, as the stream has them."""
    source = copy.fact.declaration["sources"][copy.fact.tables.index(copy.part)]
    types = {column["name"]: column["type"] for column in source["columns"]}
    return (
        ", ".join(
            f"{_text(quoted(name), types[name])} as c{number}"
            for number, name in enumerate(copy.names, 1)
        )
        or "1 as none"
    )


def _text(name: str, type_: str) -> str:
    if "char" in type_:
        # A cast takes the blanks away that fill a char(n).
        return f"case when {name} is not null then concat({name}) end"
    return f"{name}::text"


def _alike(read: Read) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are read with how many are alike."""
    held: list[pa.RecordBatch] = []
    for batch in read():
        held.append(batch)
        if sum(each.nbytes for each in held) > _HELD_BYTES:
            yield from _together(held)
            held = []
    if held:
        yield from _together(held)


def _together(batches: Collection[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    alike = table.group_by(table.column_names).aggregate([([], "count_all")])
    names = [name for name in table.column_names if name != "none"]
    yield from alike.select([*names, "count_all"]).rename_columns([*names, "times"]).to_batches()
