"""Tables that DDL has altered so that rows differ without a change in the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loader.capture.wal2json import Altered
from loader.staging.logged_tables import Root
from loader.staging.records import Registration
from waltally.errors import LoaderError, TableReplaced
from waltally.facts import needed_columns
from waltally.tables import Table


def altered_tables(
    noted: Iterable[tuple[Altered, int]], registered: Registration, roots: Mapping[Table, Root]
) -> list[tuple[Table, int, LoaderError]]:
    """Return each table with the position after the last such DDL, and the finding.

    `noted` has a commit LSN with each. A table counts where a fact needs one of the columns.
    """
    altered: dict[Table, tuple[Table, int, LoaderError]] = {}
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
                columns &= set(needed_columns(registered.facts, table))
            if columns is None or columns:
                altered[table] = (table, commit_lsn + 1, _finding(note, columns, table))
    return list(altered.values())


def not_in_log(table: Table, event: str) -> LoaderError:
    """Return the finding that rows came, went or changed without changes."""
    return TableReplaced(
        f"{table} {event}; the log has no change for these rows, so its facts wait",
        "`spark-submit spark/seed.py`, then `dbt build`",
    )


def _finding(note: Altered, columns: frozenset[str] | None, table: Table) -> LoaderError:
    if note.table is None:
        event = f"is in the schema {note.schema}, which was renamed or got another owner"
    elif columns is None:
        event = "was renamed, got another owner, or was made UNLOGGED or LOGGED"
    else:
        event = f"was altered, and {', '.join(sorted(columns))} may have other values"
    return not_in_log(table, event)
