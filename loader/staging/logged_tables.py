"""What logged_table holds of a source table: since when the log has it, and its partitions. Pure.

Changes of a partitioned table come under the names of its leaves, which hold the rows. The loader
follows exactly these names, and puts the root's name in their place. It stores a position only
after the catalog has said that nothing came or went before it, so a list that was read once is
right for everything stored. held_since() in SQL says since when the log has a model's columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from waltally import lsn
from waltally.tables import Table


@dataclass(frozen=True)
class Member:
    """The root, a leaf, or a partitioned table between them.

    `attached`, `born` and `named` are the transactions that attached it, made it, and last gave it
    its name or its owner: the xmin of its rows in pg_inherits, of a system column in pg_attribute,
    and in pg_type. No other command writes these rows again, VACUUM FREEZE and FULL included.
    """

    oid: int
    parent: int
    attached: str
    born: str
    named: str
    kind: str
    """pg_class.relkind."""
    persistence: str
    schema: str
    name: str
    is_rewritten: bool = field(default=False, compare=False)
    """Whether ALTER TABLE has rewritten its rows, as SET LOGGED does: no change tells of them.

    Or has given it another name in the transaction that made it. A TRUNCATE of all leaves hides the
    former, and so does VACUUM FULL."""

    @property
    def table(self) -> Table:
        """Its name."""
        return Table(self.schema, self.name)

    @property
    def is_new_born(self) -> bool:
        """Whether each of its rows came by a change of the table, always under this name."""
        return self.attached == self.born == self.named and not self.is_rewritten

    @property
    def is_unfit(self) -> bool:
        """Whether its rows change without WAL."""
        return self.kind not in "rp" or self.persistence != "p"


@dataclass(frozen=True)
class Root:
    """A partitioned table as the catalog had it at `read_lsn`, and what the log has of it."""

    read_lsn: int
    members: tuple[Member, ...]
    gone: tuple[tuple[Table, int], ...] = ()
    """Leaves that were dropped, and a position after that: before it the log needs their changes.
    Only where every model ignores the table's deletes."""
    emptied_lsn: int | None = None
    """A position after a leaf last went or was truncated, whose rows models that ignore deletes
    still count."""
    young: tuple[tuple[int, int], ...] = ()
    """The oids of leaves that were made since the table was followed, and a position after that:
    before it another table may have had the name, whose changes the log must not take."""

    @property
    def leaves(self) -> tuple[Table, ...]:
        """The tables that hold the rows."""
        return tuple(member.table for member in self.members if member.kind != "p")

    @property
    def unfit(self) -> tuple[Table, ...]:
        """The leaves whose rows change without WAL."""
        return tuple(member.table for member in self.members if member.is_unfit)

    def emptied_at(self, position: int) -> Root:
        """Return the root after leaves went or were truncated before the position."""
        return replace(self, emptied_lsn=max(self.emptied_lsn or 0, position))


@dataclass(frozen=True)
class Judged:
    """Whether partitions changed in a way that the log cannot show, and what to store."""

    root: Root
    """What is to be stored."""
    has_gap: bool
    """Whether rows came or went without changes, so that the log is whole only from here on."""
    event: str = ""
    """The rest of a sentence that begins with the root's name."""


def judge(
    before: Root | None,
    current: Root,
    present: Collection[int],
    counts_deletes: bool,
    position_lsn: int,
) -> Judged:
    """Compare a root with what is stored of it.

    `present` are the oids of former members that still exist, or whose names have another table.
    With `counts_deletes` the rows of a leaf that is dropped must leave some model. Of leaves that
    went or were made before `position_lsn`, the position of record, nothing is awaited any more.
    """
    if before is None:
        return Judged(current, True, "is partitioned now")
    known = {member.oid: member for member in before.members}
    now = {member.oid: member for member in current.members}
    if current.members[0].oid != before.members[0].oid:
        return Judged(current, True, "is another table than before")
    kept = replace(current, emptied_lsn=before.emptied_lsn)
    came = [member for oid, member in now.items() if oid not in known and not member.is_new_born]
    # The root's own name and owner do not matter: its leaves have theirs.
    stayed = [(known[oid], member) for oid, member in now.items() if oid in known]
    other = [member for former, member in stayed if member.parent and former != member]
    went = [member for oid, member in known.items() if oid not in now]
    left = [member for member in went if member.oid in present or counts_deletes]
    events = [
        *(f"{member.table} was {_way(member)}" for member in came),
        *(
            f"{member.table} was renamed, moved, attached again or made UNLOGGED"
            for member in other
        ),
        *(f"{member.table} was detached or dropped" for member in left),
    ]
    if went:
        kept = kept.emptied_at(current.read_lsn)
    if events:
        return Judged(kept, True, "has other partitions: " + ", ".join(events))
    dropped = [(member.table, current.read_lsn) for member in went if member.kind != "p"]
    gone = (*(leaf for leaf in before.gone if leaf[1] > position_lsn), *dropped)
    born = [(oid, current.read_lsn) for oid in now if oid not in known]
    young = (*(leaf for leaf in before.young if leaf[1] > position_lsn), *born)
    if (current.members, gone, young) == (before.members, before.gone, before.young):
        return Judged(before, False)
    return Judged(replace(kept, gone=gone, young=young), False)


def to_row(root: Root) -> dict[str, Any]:
    """Return what logged_table holds of a root."""
    gone = [[table.schema, table.name, lsn.show(at)] for table, at in root.gone]
    members = [astuple(member) for member in root.members]
    young = [[oid, lsn.show(at)] for oid, at in root.young]
    read_lsn = lsn.show(root.read_lsn)
    return {
        "partitions": {"read_lsn": read_lsn, "members": members, "gone": gone, "young": young},
        "emptied_lsn": None if root.emptied_lsn is None else lsn.show(root.emptied_lsn),
    }


def from_row(row: Mapping[str, Any]) -> Root | None:
    """Return the root that a row of logged_table holds; None for a table without partitions."""
    stored, emptied = row["partitions"], row["emptied_lsn"]
    if stored is None:
        return None
    return Root(
        lsn.parse(stored["read_lsn"]),
        tuple(Member(*member) for member in stored["members"]),
        tuple((Table(schema, name), lsn.parse(at)) for schema, name, at in stored["gone"]),
        None if emptied is None else lsn.parse(emptied),
        tuple((oid, lsn.parse(at)) for oid, at in stored["young"]),
    )


def _way(member: Member) -> str:
    return "rewritten by ALTER TABLE" if member.is_rewritten else "attached with what it held"


def unfinished(snapshot: str, xids: Collection[int]) -> bool:
    """Return whether one of the transactions still runs in a snapshot.

    The snapshot is the text of pg_current_snapshot(), the ids are those of the WAL, without the
    epoch. A commit is in the WAL, and streamed, before other sessions see it.
    """
    _, end, running = snapshot.split(":")
    if any(int(xid) & 0xFFFFFFFF in xids for xid in running.split(",") if xid):
        return True
    return any((xid - int(end)) & 0xFFFFFFFF < 0x80000000 for xid in xids)


@dataclass(frozen=True)
class Gap:
    """Why the log lacks something of a table, and from which position on it has it."""

    from_lsn: int
    event: str
    """The rest of a sentence that begins with the table's name."""
    columns: frozenset[str] | None = None
    """The needed columns that it lacks; None: all."""


Fingerprint = Mapping[str, Mapping[str, str]]
"""By column of a table what must not change unseen: the labels of its enums, by oid.

Its "number", and its "type" where another one would be read as this one. The most "digits" after
the point. The "key" of the table that it is part of, where a model keeps its rows. Under an empty
name what tells the table itself from another one."""


_EVENTS = {
    "oid": "it is another table now",
    "number": "{column} is another column now",
    "digits": "{column} keeps fewer digits now",
    "last renaming": "it was renamed, moved to another schema or given another owner",
}


def alterations(before: Fingerprint, now: Fingerprint) -> dict[str, str]:
    """Return by column what is not what it was.

    A label that was added changes no row. Without any, the column is no enum any more. More digits
    change no value.
    """
    events = {}
    for column in sorted(before.keys() & now.keys()):
        for key, text in before[column].items():
            new, is_label = now[column].get(key), key.isdigit()
            if key == "digits" and int(new or text) >= int(text):
                continue
            if new != text and not (is_label and not any(map(str.isdigit, now[column]))):
                what = "is gone" if new is None else f"is {new!r} now"
                word = "label" if is_label else key
                event = f"the {word} {text!r} of {column or 'the table'} {what}"
                events[column] = _EVENTS.get(key, event).replace("{column}", column)
                break
    return events


def fingerprint_gap(before: Fingerprint, now: Fingerprint, read_lsn: int) -> Gap | None:
    """Return what the log lacks where something was another before the catalog was read."""
    events = alterations(before, now)
    if not events:
        return None
    columns = None if "" in events else frozenset(events)
    return Gap(read_lsn + 1, "was altered: " + ", ".join(events.values()), columns)


ALL = "*"
"""Stands for every column of a table that is not named."""

Followed = Mapping[Table, Mapping[str, int]]
"""By table and by column: the first position from which the log holds it."""

Kept = Mapping[Table, frozenset[str] | None]
"""The columns of each followed table that the log keeps; None: every column."""


@dataclass(frozen=True)
class Held:
    """What the log holds of the tables of a session, as it is stored."""

    followed: Followed
    roots: Mapping[Table, Root]
    fingerprints: Mapping[Table, Fingerprint]
    gaps: Mapping[Table, Gap]
    """The newest of each table that this session has found."""


def renewed(
    before: Followed, kept: Kept, position: int, starts: Mapping[Table, int] | None = None
) -> dict[Table, dict[str, int]]:
    """Return what the log holds once a session follows `kept` from `position` on.

    What was followed without a gap keeps its earlier position; what is no longer followed is left
    out, so that it begins again if it comes back. `starts` has the positions of tables that begin
    again in any case.
    """
    starts = starts or {}
    return {
        table: _renewed({}, columns, starts[table])
        if table in starts
        else _renewed(before.get(table, {}), columns, position)
        for table, columns in kept.items()
    }


def after_gap(followed: Followed, table: Table, gap: Gap) -> Followed:
    """Return what the log holds after a gap in a table."""
    held = followed[table]
    ended = held.keys() if gap.columns is None else gap.columns
    ends = {name: max(held.get(name, 0), gap.from_lsn) for name in ended}
    return {**followed, table: {**held, **ends}}


def _renewed(
    before: Mapping[str, int], columns: frozenset[str] | None, position: int
) -> dict[str, int]:
    if columns is not None:
        return {
            column: before.get(column, before.get(ALL, position))
            for column in sorted(columns - {ALL})
        }
    every = before.get(ALL, position)
    # Under --columns these were followed before the others; after a gap in a column, since later.
    return {**{name: at for name, at in before.items() if at != every}, ALL: every}
