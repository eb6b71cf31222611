"""The rows that proof and price read: some blocks of the largest table, and all of the others."""

from __future__ import annotations

from dataclasses import dataclass

from loader.proposing.book import Book
from loader.proposing.catalog import Relation

PERCENT = 2
FEW_ROWS = 100_000
"""A table with fewer rows is read whole."""


@dataclass(frozen=True)
class Sample:
    """Queries of a book over a sample of the rows that they read."""

    book: Book
    needed: frozenset[int]
    """The models that they read, by number."""
    relation: Relation | None
    """The table of which only some blocks are read; None where all rows are."""

    def over(self, text: str) -> str:
        """Return a query over the CTEs."""
        return self.book.over_tables(text, self.relation)

    def models(self) -> list[str]:
        """Return the CTEs of the models that they read."""
        return [f"waltally_model_{n}" for n in sorted(self.needed)]

    def ctes(self) -> list[str]:
        """Return the sampled table and the models as CTEs.

        Also the table as `waltally_sampled`, with the block of each row.
        """
        ctes = self.book.ctes(self.needed, self.relation)
        if self.relation:
            blocks = "(ctid::text::point)[0] as waltally_block, 1 as waltally_blocks"
            of = f"from {self.relation.table.quoted} tablesample system ({PERCENT}) repeatable (1)"
            ctes = [
                f"{self.book.source(self.relation)} as materialized (select * {of})",
                f"waltally_sampled as materialized (select *, {blocks} {of})",
                *ctes,
            ]
        return ctes


def sample_of(book: Book, texts: list[str]) -> Sample:
    """Return a sample of the largest table that the texts read; all rows where it is small."""
    needed = frozenset[int]().union(*map(book.needed, texts))
    tables = [
        one for t in (*texts, *(book.models[n].text for n in needed)) for one in book.tables(t)
    ]
    large = [one for one in tables if one.rows > FEW_ROWS and one.kind == "r"]
    return Sample(book, needed, max(large, key=lambda one: one.rows, default=None))
