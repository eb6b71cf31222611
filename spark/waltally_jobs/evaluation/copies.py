"""Copies of what models need of tables, in the target, which evaluates their queries over them.

So where groups are many, the source only copies columns; and where it is another major version, or
differs in encoding, collation or zone data, the query means what it means in the target.
"""

from __future__ import annotations

import contextlib
import io
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import psycopg2
import pyarrow as pa

from waltally import failpoints
from waltally.database import Connection
from waltally.models import Model, ModelTable
from waltally.tables import Table, literal, quoted
from waltally_jobs.common import arrow
from waltally_jobs.common.arrow import Read, Start, one_line
from waltally_jobs.common.connections import TargetSession, connect, resolved
from waltally_jobs.common.errors import ReadFailed, WriteFailed
from waltally_jobs.evaluation import evaluating, queries, ranges
from waltally_jobs.evaluation.queries import RejectedRow, Rows, Take, Taken
from waltally_jobs.evaluation.snapshot import ExportedSnapshot, for_readers


@dataclass(frozen=True)
class Copy:
    """A copy of the columns `names` of a model's table: texts in c1, c2, …, with `times`.

    Only what `attempts` have written counts.
    """

    model: Model
    part: ModelTable
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
                    yield Rows(self.model, self.part, relation, condition, unit)


@contextlib.contextmanager
def made(target: TargetSession, parts: Sequence[tuple[Model, ModelTable]]) -> Iterator[list[Copy]]:
    """Make an empty copy for each of these tables, for the block."""
    names = [model.needed_columns(part) for model, part in parts]
    columns = [
        "attempt bigint, times bigint"
        + "".join(f", c{number} text" for number in range(1, len(own) + 1))
        for own in names
    ]
    with evaluating.made(target, columns) as tables:
        yield [
            Copy(model, part, table, own)
            for (model, part), table, own in zip(parts, tables, names, strict=True)
        ]


def fill(
    start: Start | None,
    target: TargetSession,
    copies: Sequence[Copy],
    exported: ExportedSnapshot,
    partitions: int,
) -> list[Copy]:
    """Fill the copies at the snapshot; return them with the attempts that count.

    Without `start` this process reads. Raises what `spark_errors` makes a sentence of.
    """
    size = ranges.pages_per_range(exported.found, partitions)
    source = for_readers(exported.conninfo), exported.name
    filled = []
    for copy in copies:
        leaves = dict(exported.found)[copy.part.table]
        reads: list[Read] = [
            partial(transfer, *source, query, resolved(target), copy.table, len(copy.names))
            for query in ranges.plan(leaves, size, ", ".join(map(quoted, copy.names)))
        ]
        found = arrow.made(start, reads, iter, arrow.WRITTEN)
        attempts = tuple(attempt for attempt, count in arrow.written(found).items() if count)
        filled.append(replace(copy, attempts=attempts))
    return filled


def transfer(
    source: str, snapshot: str, query: str, target: str, table: Table, columns: int
) -> Iterator[pa.RecordBatch]:
    """Copy rows, those that are alike as one; yield the columns of WRITTEN. For executors.

    A row stays the text that COPY has for it, which nobody reads on the way.
    """
    held = io.BytesIO()
    try:
        with contextlib.closing(psycopg2.connect(source)) as session, session.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read read only")
            cursor.execute(f"set transaction snapshot '{snapshot}'")
            cursor.execute(f"set local lock_timeout = '{ranges.LOCK_TIMEOUT}'")
            cursor.copy_expert(f"copy ({query}) to stdout", held)
    except (psycopg2.Error, OSError) as error:
        raise ReadFailed(one_line(error)) from None
    alike = Counter(held.getvalue().split(b"\n")[:-1])
    attempt = secrets.randbits(62)
    form = b"%d\t%d\t%s\n" if columns else b"%d\t%d%s\n"
    rows = b"".join([form % (attempt, times, line) for line, times in alike.items()])
    try:
        with (
            contextlib.closing(psycopg2.connect(target)) as session,
            session,
            session.cursor() as cursor,
        ):
            cursor.copy_expert(f"copy {table.quoted} from stdin", io.BytesIO(rows))
        failpoints.reach("copied")
    except (psycopg2.Error, OSError) as error:
        raise WriteFailed(one_line(error)) from None
    yield pa.RecordBatch.from_pydict({"attempt": [attempt], "row_count": [len(alike)]})


def evaluated(
    target: TargetSession, copies: Sequence[Copy], take: Take[Taken]
) -> Iterator[tuple[Model, ModelTable, Taken | RejectedRow]]:
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


def count(target: TargetSession, copies: Sequence[Copy], groups: Table) -> dict[int, int]:
    """Write the groups of the copies into a table of groups; return by attempt how many."""

    def insert(session: Connection, rows: Rows, query: str) -> dict[int, int]:
        return evaluating.insert(
            session,
            groups,
            "model, part, dimensions, row_count, sums",
            f"select {literal(rows.model.name)}, {literal(rows.part.name)}, dimensions, row_count,"
            f" sums from ({query}) as counted",
        )

    return evaluating.stored(target, groups, evaluated(target, copies, insert))
