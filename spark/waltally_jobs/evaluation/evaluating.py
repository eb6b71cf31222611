"""The tables of a job at the target."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence

from waltally import locks
from waltally.errors import LoaderError
from waltally.settings import jobs_schema
from waltally.tables import Table
from waltally_jobs.common.connections import TargetSession

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
