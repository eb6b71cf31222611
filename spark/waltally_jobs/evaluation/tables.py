"""The tables of a job at the target: of groups, and copies of what models need of the source's.

The target evaluates the queries over the copies. So where groups are many, the source only copies
columns; and where it is another major version, or differs in encoding, collation or zone data, the
query means what it means in the target.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from waltally import locks
from waltally.errors import LoaderError
from waltally.models import Model, ModelTable
from waltally.settings import jobs_schema
from waltally.tables import Table, quoted
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.evaluation import ranges
from waltally_jobs.evaluation.tasks import Range

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


@dataclass(frozen=True)
class Copy:
    """A copy of the columns `names` of a model's table: texts in c1, c2, …, with `times`."""

    model: Model
    part: ModelTable
    table: Table
    names: tuple[str, ...]

    @property
    def columns(self) -> str:
        """What is copied: COPY calls the types' own output, and no cast."""
        return ", ".join(map(quoted, self.names))


@contextlib.contextmanager
def copies(
    target: TargetSession, parts: Sequence[tuple[Model, ModelTable]]
) -> Iterator[list[Copy]]:
    """Make an empty copy for each of these tables, for the block."""
    names = [model.needed_columns(part) for model, part in parts]
    columns = [
        "attempt bigint, times bigint"
        + "".join(f", c{number} text" for number in range(1, len(own) + 1))
        for own in names
    ]
    with made(target, columns) as tables:
        yield [
            Copy(model, part, table, own)
            for (model, part), table, own in zip(parts, tables, names, strict=True)
        ]


def ranges_of(
    target: TargetSession, copy: Copy, copied: Sequence[Mapping[str, int]]
) -> Iterator[tuple[Range, int]]:
    """Yield the ranges of a copy, each with its pages; only what these attempts wrote counts.

    Rows come in parts: what stands for 5 is in those of 1 and of 4.
    """
    target.ask(f"analyze {copy.table.quoted}")
    own = f"attempt = any ('{{{','.join(str(each['attempt']) for each in copied)}}}')"
    columns = "".join(f", c{number} as {quoted(name)}" for number, name in enumerate(copy.names, 1))
    ((times,),) = target.ask(f"select bit_or(times) from {copy.table.quoted}")
    (leaf,) = ranges.leaves(target, copy.table)
    for digit in range((times or 0).bit_length()):
        if times & (unit := 1 << digit):
            texts = f"select ctid{columns} from {copy.table.quoted}"
            relation = f"({texts} where {own} and times & {unit} <> 0) as copied"
            rows = ranges.whole(target, copy.model, copy.part, relation)
            for condition in ranges.cut(leaf, ranges.PAGES_PER_GROUPED_RANGE):
                yield replace(rows, condition=condition, times=unit), leaf.pages
