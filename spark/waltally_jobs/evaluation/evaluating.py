"""The tables of a job at the target."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence

from waltally import locks
from waltally.errors import LoaderError
from waltally.settings import jobs_schema
from waltally.tables import Table
from waltally_jobs.common.connections import TargetSession

_MADE = (
    "select c.relname::text, left(c.relname, 22) from pg_class as c"
    " inner join pg_namespace as n on n.oid = c.relnamespace"
    " where n.nspname = %s and c.relname ~ '^moved_[0-9a-f]{16}(_[0-9]+)?$'"
)
"""The tables of all jobs, each with the one that it belongs to; see tasks.of_attempt."""
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
    names = [f"moved_{secrets.token_hex(8)}" for _ in columns]
    tables = [Table(schema, name) for name in names]
    try:
        for name in names:
            locks.hold(target, "moved", name)
        # A killed job leaves its tables, and its session no lock.
        _drop(target, lambda name: not _is_held(target, name))
        for table, own in zip(tables, columns, strict=True):
            target.ask(f"create unlogged table {table.quoted} ({own})")
        yield tables
    finally:
        with contextlib.suppress(LoaderError):
            _drop(target, lambda name: name in names)


def _is_held(target: TargetSession, name: str) -> bool:
    return target.ask(locks.IS_HELD, {"key": locks.key("moved", name)}) == [(True,)]


def _drop(target: TargetSession, is_over: Callable[[str], bool]) -> None:
    """Drop the tables of those that are over, and those of their attempts."""
    schema = jobs_schema(target.schema)
    for name, of in target.ask(_MADE, (schema,)):
        if is_over(of):
            target.ask(f"drop table if exists {Table(schema, name).quoted}")
