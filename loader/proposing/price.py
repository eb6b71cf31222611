"""What each proposed model will hold and cost, by the server's statistics."""

from __future__ import annotations

from loader.proposing.book import Book
from waltally.tables import format_table
from waltally.units import size

_ROW = 40
"""Bytes of a row beside its values, with its place in an index."""
_MICROSECONDS = {"rows": 10, "fact": 15, "fact over models": 70}
"""About what a changed row costs the server in batches; only for comparing kinds."""
_NEARLY = 0.5
"""The share of its table's rows from which a fact saves little."""


def price_lines(book: Book) -> list[str]:
    """Return a line for each model; the first says where one is nearly as large as its table."""
    largest = max(book.sources, key=lambda one: one.rows, default=None)
    lines, warnings = [], []
    for number, model in enumerate(book.models):
        rows, width = _estimate(book, number)
        kind = next(
            (kind for kind in ("fact over models", "rows") if model.kind.startswith(kind)), "fact"
        )
        held = f"about {rows:,.0f} rows, {size(rows * (width + _ROW))}"
        lines.append(f"{model.name}: {held}, {_MICROSECONDS[kind]} µs a change")
        lines.append(f"  {model.kind}")
        if largest and largest.rows > 1000 and not model.copied and rows > _NEARLY * largest.rows:
            warnings.append(
                f"{model.name} will be nearly as large as {format_table(largest.table)}: about"
                f" {rows:,.0f} of {largest.rows:,.0f} rows"
            )
    if unknown := [one for one in book.sources if not one.rows]:
        names = ", ".join(format_table(one.table) for one in unknown)
        warnings.append(f"Sizes are guesses without statistics: analyze {names}")
    return [*warnings, *lines]


def identity_lines(book: Book, has_old_rows: dict[str, bool]) -> list[str]:
    """Return the SQL for tables whose old values a fact needs."""
    counted = {
        one.table
        for number, one in enumerate(book.sources)
        for model in book.models
        if not model.copied and f"waltally_source_{number} " in f"{model.query} "
    }
    tables = [table for table in sorted(counted, key=str) if not has_old_rows.get(str(table))]
    return [f"alter table {format_table(table)} replica identity full;" for table in tables]


def _estimate(book: Book, number: int) -> tuple[float, int]:
    ((plan,),) = book.catalog.connection.ask(
        f"explain (format json) {book.plain(f'select * from waltally_model_{number} as m')}"
    )
    return plan[0]["Plan"]["Plan Rows"], plan[0]["Plan"]["Plan Width"]
