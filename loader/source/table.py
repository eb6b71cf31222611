"""The record of a source table. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from waltally.tables import Table

BY_SESSION = (
    *("aclitem", "regclass", "regcollation", "regconfig", "regdictionary"),
    *("regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"),
)
"""Types whose text depends on search_path or a renaming, so on the session."""

READ_ALIKE = {
    "date": "date",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "float4": "real",
    "float8": "double precision",
    "numeric": "numeric",
    "interval": "interval",
    "json": "json",
    "jsonb": "jsonb",
    "bpchar": "character",
    "text": "text",
    "varchar": "text",
}
"""By the name in pg_type, types whose values can be read as another one's, with another meaning."""


@dataclass(frozen=True)
class Writes:
    """A table's size and writes by the server's statistics."""

    rows: float
    """The planner's estimate; -1 where the table was never analysed."""
    size: float
    """In bytes, with TOAST and without indexes."""
    inserts: float = 0
    updates: float = 0
    deletes: float = 0


@dataclass(frozen=True)
class TableInfo:
    """A source table as the catalog has it."""

    table: Table
    kind: str | None = None
    """pg_class.relkind, None where the table does not exist."""
    persistence: str | None = None
    columns: Mapping[str, bool] = field(default_factory=dict)
    """Column names, and whether they are NOT NULL."""
    identity: str | None = None
    """pg_class.relreplident."""
    identity_columns: Collection[str] = ()
    """The columns of an old row, for the replica identities `default` and `using index`."""
    primary_key: Sequence[str] = ()
    """Empty where it is deferrable: then it identifies no old row."""
    wide_index: str | None = None
    """An existing index that can be a wide enough replica identity."""
    by_session: Mapping[str, str] = field(default_factory=dict)
    """By needed column, its type, or one within it, whose text depends on the session."""
    names_taken: Collection[str] = ()
    """Names in the schema that an index of a remedy must not have."""
    types: Mapping[str, str] = field(default_factory=dict)
    """By needed column, its type; for a domain, the type under it."""
    heirs: Sequence[str] = ()
    """The tables that inherit from this one, quoted for SQL; partitions are not among them."""
    virtual: Mapping[str, str] = field(default_factory=dict)
    """By needed virtual column, its declaration as a stored one."""
    index_sizes: Mapping[str, int | None] = field(default_factory=dict)
    """By column that an index can have, the most bytes that a value takes there; None: no limit."""
    partly_published: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By publication of updates or deletes that leaves columns out, the columns that it has."""
    writes: Writes = Writes(-1, 0)
