"""The groups of models that are queries: the source's server evaluates the query, range by range.

What ranges have of one group is added up by the target. No rule of a query is written here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, TypeVar

from psycopg2 import DataError, NotSupportedError, errors

from waltally.database import Connection, Target
from waltally.errors import LoaderError, RowTooLarge
from waltally.models import Model, ModelTable
from waltally.tables import quoted
from waltally_jobs.common.command import Settings
from waltally_jobs.common.progress import Progress
from waltally_jobs.evaluation import ranges
from waltally_jobs.evaluation.snapshot import ExportedSnapshot, for_readers, imported

MAX_REJECTED = 1000
"""More rows than these that the query cannot take end a seed, as they end the stream."""
ROW_AT_FAULT = (
    *(DataError, NotSupportedError, errors.CardinalityViolation, errors.SyntaxError),
    *(errors.ProgramLimitExceeded, errors.StatementTooComplex),
)
"""What a row itself is to blame for, as in cdc.find_bad_images; never memory, disk or locks."""


Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Rows:
    """Rows of a model's table that are evaluated at once, from `relation`, a FROM item.

    Each stands for so many that are alike.
    """

    model: Model
    part: ModelTable
    relation: str
    condition: str = "true"
    times: int = 1


Take = Callable[[Connection, Rows, str], Taken]
"""Takes what a query gives of rows, in a session that sees them."""


@dataclass(frozen=True)
class RejectedRow:
    """A row that a query cannot take, how many there are of it, and PostgreSQL's reason."""

    reason: str
    example: str
    count: int = 1


def copied(session: Connection, columns: str, query: str, file: IO[bytes]) -> int:
    """Append what a query gives to a file, as COPY prints it; return how many rows."""
    begin = file.tell()
    try:
        return session.copy(f"copy (select {columns} from ({query}) as counted) to stdout", file)
    except BaseException:
        # A row that the query cannot take may be the last of many.
        file.seek(begin)
        file.truncate()
        raise


def at_source(
    settings: Settings,
    target: Target,
    models: Sequence[Model],
    exported: ExportedSnapshot,
    take: Take[Taken],
    moved: Collection[tuple[Model, ModelTable]] = (),
) -> Iterator[tuple[Model, ModelTable, Taken | RejectedRow]]:
    """Yield what is taken of each range at the source, but for the tables `moved`.

    Apart come the rows that a query cannot take. Raises LoaderError.
    """
    leaves = dict(exported.found)
    size = ranges.pages_per_range(
        exported.found, settings.partitions, ranges.PAGES_PER_GROUPED_RANGE
    )
    with imported(for_readers(exported.conninfo), exported.name) as source:
        work = [
            (Rows(model, part, ranges.relation(leaf, values), condition), min(size, leaf.pages))
            for model in models
            for part in model.tables
            if (model, part) not in moved
            for values in [ranges.values(source, part.table, model.needed_columns(part))]
            for leaf in leaves[part.table]
            for condition in ranges.cut(leaf, size)
        ]
        yield from evaluated(source, target, _followed(work, exported), take)


def _followed(work: Sequence[tuple[Rows, int]], exported: ExportedSnapshot) -> Iterator[Rows]:
    """Yield the rows of each range while the snapshot is there; say how far the reading is."""
    progress = Progress(sum(pages for _, pages in work) * ranges.PAGE_BYTES)
    for rows, pages in work:
        exported.check()
        yield rows
        progress.advance(pages * ranges.PAGE_BYTES)


def evaluated(
    session: Connection, target: Target, work: Iterable[Rows], take: Take[Taken]
) -> Iterator[tuple[Model, ModelTable, Taken | RejectedRow]]:
    """Yield what is taken of rows in a session, which is in a transaction.

    Apart come the rows that a query cannot take. Raises LoaderError.
    """
    rejected: dict[tuple[str, str], int] = {}
    for rows in work:
        for found in _taken(session, target, take, rows):
            if isinstance(found, RejectedRow):
                key = rows.model.name, rows.part.name
                rejected[key] = rejected.get(key, 0) + found.count
                if rejected[key] > MAX_REJECTED:
                    raise RowTooLarge(
                        f"The query of {rows.model.name} cannot take more than {MAX_REJECTED:,}"
                        f" rows of {rows.part.table}; the last of them: {found.reason}",
                        "write the query so that it takes them, then `loader setup`, `dbt build`,"
                        " and seed",
                    )
            yield rows.model, rows.part, found


def range_query(target: Target, model: Model, part: ModelTable, place: str) -> str:
    """Return the model's query over rows of one of its tables, from a place: a FROM clause."""
    values = json.dumps(model.declaration), model.tables.index(part) + 1, place
    ((query,),) = target.ask_staging("select {}.write_range(%s, %s, %s)", values)
    return str(query)


def _taken(
    session: Connection, target: Target, take: Take[Taken], rows: Rows
) -> Iterator[Taken | RejectedRow]:
    """Yield what rows give; those that the query refuses come apart."""
    declaration = rows.model.declaration
    place = f"from {rows.relation} where {rows.condition}"
    query = range_query(target, rows.model, rows.part, place)
    if rows.times > 1:
        query = _MULTIPLIED.format(query=query, times=rows.times)
    session.ask("savepoint range")
    try:
        session.ask("select set_config('timezone', %s, true)", (declaration["timezone"],))
        taken = take(session, rows, query)
    except LoaderError as error:
        if not isinstance(error.__cause__, ROW_AT_FAULT):
            raise
        session.ask("rollback to savepoint range")
        yield from _halves(session, target, take, rows, str(error.__cause__).partition("\n")[0])
        return
    session.ask("release savepoint range")
    yield taken


def _halves(
    session: Connection, target: Target, take: Take[Taken], rows: Rows, reason: str
) -> Iterator[Taken | RejectedRow]:
    """Yield the same of the halves of rows of which the query cannot take one."""
    ((count, middle),) = session.ask(
        "select count(*), (array_agg(ctid order by ctid))[count(*) / 2 + 1]::text"
        f" from {rows.relation} where {rows.condition}"
    )
    if count != 1:
        # What fails without any row gives nothing here.
        for half in (f"ctid < '{middle}'", f"ctid >= '{middle}'") if count else ():
            yield from _taken(
                session, target, take, replace(rows, condition=f"{rows.condition} and {half}")
            )
        return
    columns = ", ".join(
        f"left({quoted(name)}::text, 100) as {quoted(name)}"
        for name in rows.model.needed_columns(rows.part)
    )
    session.ask("savepoint range")
    try:
        ((example,),) = session.ask(
            f"select to_jsonb(example)::text from (select {columns}"
            f" from {rows.relation} where {rows.condition}) as example"
        )
    except LoaderError as error:
        # It has a value that the server itself cannot show.
        if not isinstance(error.__cause__, ROW_AT_FAULT):
            raise
        session.ask("rollback to savepoint range")
        example = "{}"
    yield RejectedRow(reason, example, rows.times)


_MULTIPLIED = """
select dimensions, row_count * {times} as row_count, array(
    select (number::numeric * {times})::text
    from unnest(sums) with ordinality as one (number, place)
    order by place
) as sums
from ({query}) as once
"""
