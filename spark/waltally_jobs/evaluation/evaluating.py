"""Has the target evaluate a model's query over changes that a job has brought there.

So it needs neither the source's server nor that dbt has installed the model.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence

from waltally import locks
from waltally.database import Connection
from waltally.errors import LoaderError
from waltally.models import Model, ModelTable
from waltally.settings import jobs_schema
from waltally.tables import Table, literal
from waltally_jobs.common.connections import TargetSession, resolved
from waltally_jobs.evaluation.queries import RejectedRow
from waltally_jobs.moving.reading import Place

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
def tables(target: TargetSession) -> Iterator[tuple[Table, Table]]:
    """Make a table for changes, like computed_change, and one for groups, for the block."""
    with made(target, [f"like {target.table('computed_change')}", GROUPS]) as (moved, groups):
        yield moved, groups


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


def place(target: TargetSession, moved: Table, models: Sequence[Model]) -> Place:
    """Return where tasks write the changes of these models."""
    names = tuple(str(model.relation) for model in models)
    return Place(resolved(target), moved, target.slot, names, "moved")


def not_countable(
    target: TargetSession, moved: Table, attempts: Sequence[int]
) -> tuple[int, str] | None:
    """Return the first change that no query can count and why; None where there is none."""
    rows = target.ask(
        "select last_lsn, coalesce(problem, 'it lacks a column that the query needs')"
        f" from {moved.quoted} where attempt = any (%s) and (problem is not null"
        " or missing is not null) order by last_lsn limit 1",
        ([*attempts],),
    )
    return (rows[0][0], rows[0][1]) if rows else None


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


def count(
    target: TargetSession,
    model: Model,
    moved: Table,
    attempts: Sequence[int],
    groups: Table,
    went: str,
) -> dict[int, int]:
    """Evaluate the model's query over what the attempts have written, into the table of groups.

    Returns what it has written there, by attempt. With the reason `went` groups are deletes that
    the model ignores.
    """
    columns = "part, dimensions, row_count, sums, reason, example"
    texts = map(literal, (json.dumps(model.declaration), moved.quoted, str(model.relation)))
    function = f"{target.table('count_moved')}({', '.join(texts)}"
    written: dict[int, int] = {}
    for attempt in attempts:
        query = (
            f"select {literal(model.name)}, {columns} from {function}, {attempt}, {literal(went)})"
        )
        written |= insert(target, groups, f"model, {columns}", query)
    return written
