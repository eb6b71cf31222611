"""What the checks need to know of the source's tables. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from waltally.tables import Table

BY_SESSION = (
    *("money", "aclitem", "regclass", "regcollation", "regconfig", "regdictionary"),
    *("regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"),
)
"""Types whose text depends on lc_monetary, search_path or a renaming, so on the session."""


@dataclass(frozen=True)
class Writes:
    """What the server's statistics say was written to a table, and how much there is of it."""

    rows: float
    """As the planner takes it; -1 where the table was never analysed."""
    size: float
    """In bytes, with what is out of line, without indexes."""
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
    """What an old row carries under `default` and `using index`."""
    primary_key: Sequence[str] = ()
    wide_index: str | None = None
    """An index that is there already and may become an identity wide enough."""
    by_session: Mapping[str, str] = field(default_factory=dict)
    """By needed column, the type whose text differs between sessions: its own or one within it."""
    names_taken: Collection[str] = ()
    """Names that a remedy may not give: those of the schema that end like its indexes'."""
    types: Mapping[str, str] = field(default_factory=dict)
    """By needed column, its type; of a domain the type that it is made of."""
    heirs: Sequence[str] = ()
    """The tables that inherit from this one, quoted as SQL needs them; partitions do not."""
    virtual: Mapping[str, str] = field(default_factory=dict)
    """By needed column that is computed when it is read, how it would be declared as stored."""
    writes: Writes = Writes(-1, 0)
