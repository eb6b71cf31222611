"""Whether the source's tables can be followed, and counted for models. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loader.findings.identity import identity_change, identity_wide
from loader.source import table_identity
from loader.source.state import State
from loader.source.table import READ_ALIKE, TableInfo
from loader.staging.logged_tables import Root
from waltally.errors import IdentityTooNarrow, LoaderError, SettingError, TableUnfit
from waltally.models import Model, ModelTable, identity_columns, source_tables
from waltally.tables import Table, quoted


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
