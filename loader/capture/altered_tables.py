"""Tables that DDL has altered so that rows differ without a change in the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loader.capture.wal2json import Altered
from loader.staging.logged_tables import Gap, Root
from loader.staging.records import Registration
from waltally.errors import LoaderError, TableReplaced
from waltally.models import needed_columns
from waltally.tables import Table


def altered_tables(
    noted: Iterable[tuple[Altered, int]], registered: Registration, roots: Mapping[Table, Root]
) -> list[tuple[Table, Gap]]:
    """Return each table with the gap that ends after the last such DDL.

    `noted` has a commit LSN with each. A table counts where a model needs one of the columns.
    """
    altered: dict[tuple[Table, frozenset[str] | None], Gap] = {}
    for note, commit_lsn in noted:
        for table in registered.tables:
            tables = [table, *(roots[table].leaves if table in roots else ())]
            if not any(
                member.schema == note.schema and note.table in (None, member.name)
                for member in tables
            ):
                continue
            columns = note.columns
            if columns is not None:
                columns &= set(needed_columns(registered.models, table))
            if columns is None or columns:
                altered[table, columns] = Gap(commit_lsn + 1, _event(note, columns), columns)
    return [(table, gap) for (table, _), gap in altered.items()]


def not_in_log(table: Table, event: str) -> LoaderError:
    """Return the finding that rows came, went or changed without changes."""
    return TableReplaced(
        f"{table} {event}; the log has no change for these rows, so its models wait",
        "`spark-submit spark/seed.py`, then `dbt build`",
    )


def _event(note: Altered, columns: frozenset[str] | None) -> str:
    if note.table is None:
        return f"is in the schema {note.schema}, which was renamed or got another owner"
    if columns is None:
        return "was renamed, got another owner, or was made UNLOGGED or LOGGED"
    return f"was altered, and {', '.join(sorted(columns))} may have other values"
