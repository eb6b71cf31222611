"""Rules over a source: each function is one, and each finding has its remedy. Pure.

Setup, status and the stream choose among these rules, each by tuples of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from loader.source import table_checks, table_identity
from loader.source.remedies import RELOAD, RENEW
from loader.source.server_checks import server_findings
from loader.source.slot import SlotInfo, of_another_source
from loader.source.standbys import findings as standby_rules
from loader.source.state import State
from loader.source.table import TableInfo
from loader.staging.logged_tables import Root
from waltally import lsn
from waltally.errors import IdentityTooNarrow, LoaderError, SlotLost, SlotMoved, TableUnfit
from waltally.models import identity_columns, source_tables
from waltally.tables import Table

Rule = Callable[[State], Iterable[LoaderError]]


def server_fits(state: State) -> Iterable[LoaderError]:
    """The server has to let the slot be made and followed."""
    return server_findings(state.server)


def tables_fit(state: State) -> Iterator[LoaderError]:
    """Each table has to be one that a slot can follow and the models can count."""
    for info in state.tables:
        yield from table_checks.table_findings(info, state.models)


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


def slot_goes_on(state: State) -> Iterator[LoaderError]:
    """The slot has to have every change since the position of record."""
    yield from filter(None, [why_not_followable(state.slot)])


_REASONS = {
    "wal_removed": ("the WAL that it needed was removed (max_slot_wal_keep_size)", ""),
    "idle_timeout": (
        "nobody followed it for longer than idle_replication_slot_timeout (idle_timeout)",
        f"alter system set idle_replication_slot_timeout = 0; {RELOAD} -- on the source; then ",
    ),
}
"""By the server's reason for giving a slot up: a sentence, and the steps before a new slot."""


def why_not_followable(info: SlotInfo) -> LoaderError | None:
    """Return why a slot cannot be followed from its record; None where it can, or there is none.

    The server sends only changes from the slot's confirmed position on. Where that is beyond the
    record, the changes between the two are lost.
    """
    name, slot, record, server = info.name, info.state, info.record, info.server
    if record is None:
        return None
    safe = record.safe
    if (finding := of_another_source(server, record)) is not None:
        return finding
    if slot is None:
        return SlotLost(
            f"The slot {name} no longer exists",
            RENEW,
            f"{safe}, what came after it may be lost",
        )
    if slot.plugin != "wal2json" or slot.database != record.source_database:
        return SlotMoved(
            f"The slot {name} is now of plugin {slot.plugin} in database {slot.database}: "
            "somebody made it again",
            f"ask who made it; once it is not needed and gone, {RENEW}",
            safe,
        )
    if slot.wal_status == "lost" or slot.confirmed_flush_lsn is None:
        # Older servers give no reason: they give up a slot only because of its WAL.
        reason = slot.invalidation_reason or "wal_removed"
        what, remedy = _REASONS.get(reason, (f"the server says {reason}", ""))
        return SlotLost(
            f"The server has given up the slot {name}: {what}",
            f"{remedy}{RENEW}",
            f"{safe}, what came after it is lost",
        )
    if slot.confirmed_flush_lsn > record.position_lsn:
        return SlotMoved(
            f"The slot {name} is at {lsn.show(slot.confirmed_flush_lsn)}, beyond the position of "
            "record: it was moved or made again, or the target was restored",
            RENEW,
            f"{safe}, changes between are lost",
        )
    return standby_rules.lost_commits(server, record)


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
    changes = [table_checks.identity_change(info, needed) for info in narrow]
    return IdentityTooNarrow(
        f"The replica identity of the partitions {names}{more} of {table} does not carry all of "
        f"{', '.join(needed) or 'a key'}: deletes and moves between groups could not be counted",
        " ".join(" ".join(sql) or note for sql, note in changes),
        sql=[statement for sql, _ in changes for statement in sql]
        if all(sql for sql, _ in changes)
        else (),
    )
