"""Whether the source's tables can be followed, and counted for models. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

from loader.source import table_identity
from loader.source.state import State
from loader.source.table import READ_ALIKE, TableInfo, Writes
from loader.staging.logged_tables import Root
from waltally.errors import IdentityTooNarrow, LoaderError, SettingError, TableUnfit
from waltally.models import Model, ModelTable, identity_columns, source_tables
from waltally.tables import Table, quoted
from waltally.units import size


def table_names_differ(state: State) -> Iterator[LoaderError]:
    """The log tells tables apart by their names."""
    names = [str(table) for table in source_tables(state.models)]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield SettingError(
                f"Two tables are both written {name}, and the log could not tell them apart",
                "rename one of them: no dot in a schema's or a table's name",
            )


def tables_fit(state: State) -> Iterator[LoaderError]:
    """Each table has to be one that a slot can follow and the models can count."""
    for info in state.tables:
        yield from table_findings(info, state.models)


def tables_are_there(state: State) -> Iterator[LoaderError]:
    """The slot skips the changes of a table that is not there, or that has another name now."""
    for table in source_tables(state.models):
        if str(table) not in state.identities:
            yield TableUnfit(
                f"The table {table} does not exist at the source, or has another name now",
                "give the table its name back or make it again; what was written under another "
                "name is not in the log, so then `spark-submit spark/seed.py`, then `dbt build`",
            )


def no_partition_is_declared(state: State) -> Iterator[LoaderError]:
    """A change has one name, so a table and its partition cannot both be counted."""
    declared = source_tables(state.models)
    for table, root in state.roots.items():
        for member in root.members[1:]:
            if member.table in declared:
                yield TableUnfit(
                    f"{member.table} is a partition of {table}, and both are declared, but a "
                    "change has only one name",
                    f"take one of them out of the declarations; {table} has all rows",
                )


def leaves_fit(state: State) -> Iterator[LoaderError]:
    """Each partition has to be one that a slot can follow and the models can count."""
    for table, root in state.roots.items():
        yield from _unfit_leaves(table, root)
        if narrow := state.narrow_leaves.get(table):
            yield _narrow_leaves(table, narrow, identity_columns(state.models, table))


def tables_are_those_counted(state: State) -> Iterable[LoaderError]:
    """The tables of a registered model must be the ones that it counted."""
    declarations = {model.name: model.declaration for model in state.models}
    registered = state.registration.models
    unchanged = [model for model in registered if declarations.get(model.name) == model.declaration]
    # Of what is no table any more, another rule says that: a seed could not count it.
    gone = {str(info.table) for info in state.tables if info.kind not in ("r", "p")}
    current = {name: now for name, now in state.identities.items() if name not in gone}
    return table_identity.replaced_findings(unchanged, state.counted, current)


_LISTED = 5
"""How many leaves a sentence names; the remedy names all."""


def _unfit_leaves(table: Table, root: Root) -> Iterator[LoaderError]:
    """Yield a finding for each leaf whose rows change without WAL."""
    tables = {member.oid: member.table for member in root.members}
    for leaf in root.members:
        if not leaf.is_unfit:
            continue
        if leaf.kind == "f":
            what = "a foreign table"
            parent = tables[leaf.parent].quoted
            remedy = (
                f"alter table {parent} detach partition {leaf.table.quoted}; "
                "-- queries of the parent then lack its rows, those of the application too"
            )
        else:
            what = "not logged"
            remedy = (
                f"alter table {leaf.table.quoted} set logged; -- rewrites the table, under a lock"
            )
        yield TableUnfit(
            f"The partition {leaf.table} of {table} is {what}, so its changes reach no slot", remedy
        )


def _narrow_leaves(table: Table, narrow: Sequence[TableInfo], needed: Sequence[str]) -> LoaderError:
    names = ", ".join(str(info.table) for info in narrow[:_LISTED])
    more = f" and {len(narrow) - _LISTED} more" if len(narrow) > _LISTED else ""
    changes = [identity_change(info, needed) for info in narrow]
    return IdentityTooNarrow(
        f"The replica identity of the partitions {names}{more} of {table} does not carry all of "
        f"{', '.join(needed) or 'a key'}: deletes and moves between groups could not be counted",
        " ".join(" ".join(sql) or note for sql, note in changes),
        sql=[statement for sql, _ in changes for statement in sql]
        if all(sql for sql, _ in changes)
        else (),
    )


_LARGE = 1_000_000
"""From so many rows on it matters which replica identity costs less."""


def table_findings(info: TableInfo, models: Sequence[Model]) -> list[LoaderError]:
    """Return what is wrong with a table of these models."""
    unfit = countable(info, models)
    # In a partitioned table the leaves hold the rows, each with its own replica identity.
    if table_fit(info) or info.kind == "p":
        return unfit
    needed = identity_columns(models, info.table)
    present = [name for name in needed if name in info.columns]
    narrow = identity_wide(info, present)
    if narrow and present != list(needed):
        narrow = IdentityTooNarrow(
            narrow.sentence,
            f"correct the columns of {info.table} first, because the SQL depends on them; then"
            " `loader setup --check` prints it",
        )
    return [*unfit, narrow] if narrow else unfit


def countable(info: TableInfo, models: Sequence[Model]) -> list[LoaderError]:
    """Return why the rows of a table cannot be counted for these models; empty where they can."""
    feeds = [(model, part) for model in models for part in model.tables if part.table == info.table]
    first = table_fit(info) or without_heirs(info)
    if first is not None:
        return [first]
    findings = (
        columns_present(info, feeds),
        columns_stored(info),
        columns_readable(info),
        as_compiled(info, feeds),
    )
    return [*filter(None, findings)]


def table_fit(info: TableInfo) -> LoaderError | None:
    """Only an ordinary or a partitioned table that is logged can be followed."""
    table = info.table
    remedy = "correct the table's name in the declaration, then `loader setup`"
    if table.is_of_the_server:
        return TableUnfit(
            f"{table} is a table of the server's own: no slot has its changes", remedy
        )
    if info.kind is None:
        return TableUnfit(f"The table {table} does not exist at the source", remedy)
    if info.kind not in ("r", "p"):
        return TableUnfit(f"{table} is not a table", remedy)
    if info.persistence != "p":
        return TableUnfit(
            f"The table {table} is not logged, so its changes reach no slot",
            f"alter table {table.quoted} set logged;"
            " -- rewrites the table, under a lock; if it was counted before, then "
            "`spark-submit spark/seed.py`, then `dbt build`: what was written meanwhile is in no "
            "change",
        )
    return None


def without_heirs(info: TableInfo) -> LoaderError | None:
    """A query counts the rows of a table together with those of tables that inherit from it."""
    if not info.heirs:
        return None
    apart = " ".join(f"alter table {heir} no inherit {info.table.quoted};" for heir in info.heirs)
    return TableUnfit(
        f"A query of {info.table} also counts the rows of {', '.join(info.heirs)}, which "
        "inherit from it, and their changes have other names",
        f"count a table from which none inherits, or make {info.table} a partitioned one; or, if "
        f"the application does not read them together: {apart}",
    )


def columns_present(
    info: TableInfo, feeds: Sequence[tuple[Model, ModelTable]]
) -> LoaderError | None:
    """A table must have every column that its models need."""
    missing = {
        name: model.name
        for model, part in reversed(feeds)
        for name in model.needed_columns(part)
        if name not in info.columns
    }
    if not missing:
        return None
    by_model = ", ".join(sorted(set(missing.values())))
    return TableUnfit(
        f"The table {info.table} has no column {', '.join(sorted(missing))}, needed by {by_model}",
        "correct the name in the query",
    )


def as_compiled(info: TableInfo, feeds: Sequence[tuple[Model, ModelTable]]) -> LoaderError | None:
    """Models read values, and tell rows apart, as the table had them when they were compiled."""
    for model, part in feeds:
        for source in model.declaration["sources"]:
            for column in source["columns"] if source["table"] == part.name else ():
                now = info.types.get(column["name"])
                if now in READ_ALIKE.values() and now != READ_ALIKE.get(column["type"], now):
                    return _not_as_compiled(info, model, f"its {column['name']} is a {now} now")
        identity = model.declaration.get("identity", info.primary_key)
        # Of a deferrable key nothing is known here.
        is_known = info.primary_key or not model.declaration.get("needs_old_rows")
        if is_known and {*identity} != {*info.primary_key}:
            key = ", ".join(info.primary_key) or "gone or deferrable"
            return _not_as_compiled(info, model, f"its primary key is {key} now")
    return None


def _not_as_compiled(info: TableInfo, model: Model, what: str) -> LoaderError:
    return TableUnfit(
        f"The table {info.table} is not as {model.name} was compiled for it: {what}",
        "`loader setup`, then `dbt build`, then `spark-submit spark/seed.py`",
    )


def columns_stored(info: TableInfo) -> LoaderError | None:
    """A virtual column, which PostgreSQL has from 18 on, is null in every change."""
    if not info.virtual:
        return None
    changes = ", ".join(
        f"drop {quoted(name)}, add {quoted(name)} {definition}"
        for name, definition in info.virtual.items()
    )
    return TableUnfit(
        f"The table {info.table} has {', '.join(info.virtual)} as a virtual generated column, "
        "whose values are in no change",
        f"alter table {info.table.quoted} {changes}; -- rewrites the table, under a lock",
    )


def columns_readable(info: TableInfo) -> LoaderError | None:
    """A value must have the same text in every session: the stream and the seed are two."""
    if not info.by_session:
        return None
    listed = ", ".join(f"column {n} with values of type {t}" for n, t in info.by_session.items())
    changes = ", ".join(f"alter {quoted(name)} type text" for name in info.by_session)
    return TableUnfit(
        f"The table {info.table} has {listed}, whose text depends on the session that reads it, "
        "so no model can use it",
        "leave it out of the model; or, if the application does not need the type: "
        f"alter table {info.table.quoted} {changes}; -- rewrites the table, under a lock",
    )


def identity_wide(info: TableInfo, needed: Sequence[str]) -> LoaderError | None:
    """An old row must have the columns that the models need to subtract what it added.

    Source: PostgreSQL documentation, "ALTER TABLE", REPLICA IDENTITY.
    """
    if info.identity == "f":
        return None
    missing = [name for name in needed if name not in info.identity_columns]
    if not missing and info.identity != "n" and info.identity_columns:
        return None
    sql, why = identity_change(info, needed)
    return IdentityTooNarrow(
        f"The replica identity of {info.table} does not carry {', '.join(missing) or 'any column'}"
        ": deletes and moves between groups could not be counted",
        " -- ".join(filter(None, (" ".join(sql), why))),
        sql=sql,
    )


def identity_change(info: TableInfo, needed: Sequence[str]) -> tuple[Sequence[str], str]:
    """Return the SQL for a wide enough replica identity, and what to know of it.

    No SQL where the server would then refuse the application's own writes, but what to do before.
    """
    sql, why, columns = _identity(info, needed)
    narrow = [
        name
        for name, published in info.partly_published.items()
        if columns is None or not set(columns) <= set(published)
    ]
    if narrow:
        return (), (
            f"let the publication {', '.join(narrow)} publish all columns of {info.table} first: "
            "with a replica identity that has more columns than it publishes, PostgreSQL refuses "
            "the application's updates and deletes; then `loader setup --check` prints the SQL"
        )
    return sql, why


_Identity = tuple[Sequence[str], str, Sequence[str] | None]


def _identity(info: TableInfo, needed: Sequence[str]) -> _Identity:
    """Return the SQL, what to know of it, and the columns of an old row; None for all."""
    table = info.table
    choose = f"alter table {table.quoted} replica identity"
    full = (f"{choose} full;",)
    if info.wide_index is not None:
        return (f"{choose} using index {quoted(info.wide_index)};",), "", needed
    columns = list(dict.fromkeys((*info.primary_key, *needed)))
    index = quoted(_free_name(table.name, "_replica_identity", info.names_taken))
    covering = (
        f"create unique index concurrently {index} on {table.quoted} "
        f"({', '.join(map(quoted, columns))});",
        f"{choose} using index {index};",
    )
    cost = _cost_of_full(info.writes)
    if nullable := [name for name in needed if not info.columns.get(name)]:
        names = ", ".join(nullable)
        why = f"an index would write less, but {names} may be null (set not null)"
        return full, f"{why}; {cost}", None
    if not info.primary_key:
        why = "with a primary key that is not deferrable, an index would write less"
        return full, f"{why}; {cost}", None
    if long := _too_long(info, columns):
        why = (
            f"{', '.join(long)} may be too long for an index: the application's own write fails "
            f"then; {cost}"
        )
        if all(name in info.index_sizes for name in columns):
            why += f"; if all values stay short, an index writes less: {' '.join(covering)}"
        return full, why, None
    if _is_full_cheaper(info.writes):
        taken = size(info.writes.rows * (6 + 16 * len(columns)))
        why = f"an index would take about {taken} and, by the table's statistics, write more WAL"
        return full, f"{why}; {cost}", None
    return covering, "", columns


_INDEX_BYTES = 2_600
"""PostgreSQL refuses a row of which an index entry would have more than 2,704, with its header."""
_ALIGNED = 8


def _too_long(info: TableInfo, columns: Sequence[str]) -> list[str]:
    """Return the columns with which an index entry may be too long; empty where it never is."""
    sizes = {name: info.index_sizes.get(name) for name in columns}
    known = {name: most for name, most in sizes.items() if most is not None}
    if len(known) < len(sizes):
        return [name for name in columns if name not in known]
    is_short = sum(most + _ALIGNED for most in known.values()) <= _INDEX_BYTES
    return [] if is_short else [name for name in columns if known[name] > _LONG]


_LONG = 64
"""The bytes of the longest types that are not counted as long: a name, a number."""


def _cost_of_full(writes: Writes) -> str:
    """Return what old rows in full cost, by the table's size.

    pg_stats.avg_width would leave out what is stored out of line, and so most of a wide row.
    """
    if writes.rows <= 0:
        return "full writes each old row whole to the WAL; analyze the table, to see the bytes"
    whole = size(writes.size / writes.rows)
    return f"full writes about {whole} of WAL more for each update and delete"


def _is_full_cheaper(writes: Writes) -> bool:
    """Return whether full old rows write less WAL than an index; see docs/performance.md.

    The numbers are bytes of WAL that a covering index of five columns wrote on Notify's history. A
    full old row is about as long as the row.
    """
    if writes.rows < _LARGE:
        return False
    by_index = 125 * writes.inserts + 210 * writes.updates + 50 * writes.deletes
    return writes.size / writes.rows * (writes.updates + writes.deletes) < by_index


def _free_name(start: str, end: str, taken: Collection[str]) -> str:
    """Return a free name for an index, of at most 63 bytes: the server would cut a longer one."""
    for number in itertools.count(1):
        suffix = end + (f"_{number}" if number > 1 else "")
        name = start.encode()[: 63 - len(suffix)].decode(errors="ignore") + suffix
        if name not in taken:
            return name
    raise AssertionError("the numbers have no end")
