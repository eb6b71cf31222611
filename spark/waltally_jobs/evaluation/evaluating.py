"""The tables of a job at the target, and how groups are written into one."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Sequence

from waltally import locks
from waltally.database import Connection
from waltally.errors import LoaderError
from waltally.models import Model, ModelTable
from waltally.settings import jobs_schema
from waltally.tables import Table, literal
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.evaluation.queries import RejectedRow

_MADE = (
    "select c.relname::text from pg_class as c"
    " inner join pg_namespace as n on n.oid = c.relnamespace"
    " where n.nspname = %s and c.relname ~ '^moved_[0-9a-f]{16}$'"
)
GROUPS = (
    "model text, part text, dimensions text[], row_count bigint, sums text[], reason text,"
    " example text, attempt bigint"
)
"""The columns of a table of groups: each is of a model's table. With a reason it is no group, but
rows that the query cannot take, and one of them. The attempt is who has written it."""


@contextlib.contextmanager
def made(target: TargetSession, columns: Sequence[str]) -> Iterator[list[Table]]:
    """Make a table for each of these lists of columns, for the block."""
    schema = jobs_schema(target.schema)
    names = [Table(schema, f"moved_{secrets.token_hex(8)}") for _ in columns]
    try:
        for table in names:
            locks.hold(target, "moved", table.name)
        for (name,) in target.ask(_MADE, (schema,)):
            # A killed job leaves its tables, and its session no lock.
            if target.ask(locks.IS_HELD, {"key": locks.key("moved", name)}) != [(True,)]:
                target.ask(f"drop table if exists {Table(schema, name).quoted}")
        for table, own in zip(names, columns, strict=True):
            target.ask(f"create unlogged table {table.quoted} ({own})")
        yield names
    finally:
        with contextlib.suppress(LoaderError):
            for table in names:
                target.ask(f"drop table if exists {table.quoted}")


def insert(session: Connection, groups: Table, columns: str, query: str) -> dict[int, int]:
    """Insert what a query gives of these columns into a table of groups.

    Returns how many rows, by their attempt.
    """
    attempt = secrets.randbits(62)
    # No parameters: beside them a % in the query would be one too.
    ((rows,),) = session.ask(
        f"with written as (insert into {groups.quoted} (attempt, {columns})"
        f" select {attempt}, own.* from ({query}) as own returning 1) select count(*) from written"
    )
    return {attempt: rows}


def stored(
    target: TargetSession,
    groups: Table,
    taken: Iterable[tuple[Model, ModelTable, dict[int, int] | RejectedRow]],
) -> dict[int, int]:
    """Write the rows that queries cannot take beside the groups that were taken.

    Returns by attempt how many of both.
    """
    written: dict[int, int] = {}
    for model, part, found in taken:
        if isinstance(found, RejectedRow):
            names = literal(model.name), literal(part.name)
            why = literal(found.reason), literal(found.example)
            written |= insert(
                target,
                groups,
                "model, part, row_count, reason, example",
                f"select {', '.join(names)}, {found.count}, {', '.join(why)}",
            )
        else:
            written |= found
    return written
