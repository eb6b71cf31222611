"""Puts a partitioned table's name into the changes of its leaves. Pure.

The leaf's own name stays in the change, under `leaf`. A row that moves between leaves is a delete
and an insert of one transaction: see moved_rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loader.capture import wal2json
from loader.capture.wal2json import Begin, Change, Commit, Message
from loader.staging.logged_tables import Root
from waltally.tables import Table

_TRUNCATE = b'{"action":"T"'
_FOREVER = 1 << 64


@dataclass(frozen=True)
class _Leaf:
    root: Table
    head: bytes
    """Replaces its own names in a change."""
    until: int
    """Changes that commit here or later belong to another table of this name."""


class LeafNames:
    """Replaces the names of all leaves, and notes where a single leaf was truncated.

    TRUNCATE of the root names the root and all its leaves. Where only a leaf is truncated, nobody
    knows which rows went, so the change keeps the leaf's name, and its position is noted.
    """

    def __init__(
        self,
        roots: Mapping[Table, Root],
        spelled: Mapping[Table, bytes],
        births: Mapping[Table, tuple[int, int]] | None = None,
    ) -> None:
        """`spelled` has the names in a change of the roots, their leaves and dropped leaves.

        `births` has the transaction that made a new leaf, and a position after that.
        """
        self.truncated: dict[Table, int] = {}
        """By root, a position after the last TRUNCATE of a leaf alone.

        The storing thread removes it."""
        self.mixed: dict[Table, int] = {}
        """By root, the position after the changes of an older table that had a leaf's name."""
        self.root_of: dict[Table, Table] = {}
        """By leaf, its partitioned table."""
        self._unborn = {spelled[table]: birth for table, birth in (births or {}).items()}
        self._early: set[bytes] = set()
        self._roots = {spelled[table]: table for table in roots}
        self._by_names: dict[bytes, _Leaf] = {}
        self._commit_lsn = 0
        self._of_root: set[tuple[Table, bytes]] = set()
        self._of_leaf: set[tuple[Table, bytes]] = set()
        for table, root in roots.items():
            present = [(member.table, _FOREVER) for member in root.members if member.parent]
            for leaf, until in (*root.gone, *present):
                head = b'"leaf":%b,%b' % (_text(spelled[leaf]), spelled[table])
                self._by_names[spelled[leaf]] = _Leaf(table, head, until)
                self.root_of[leaf] = table

    def rename(self, messages: list[Message]) -> list[Message]:
        """Return the messages with the roots' names; without changes of former partitions."""
        by_names, unborn, images_of = self._by_names, self._unborn, wal2json.IMAGES
        renamed: list[Message] = []
        for message in messages:
            # No function of its own: this runs for every row.
            if type(message) is bytes and (images := images_of.get(message[:14])):
                start = message.find(b'"schema":', 14, wal2json.HEAD)
                end = message.find(images, start)
                names = message[start:end]
                leaf = by_names.get(names)
                if leaf is not None:
                    if names in unborn:
                        self._early.add(names)
                    if leaf.until <= self._commit_lsn:
                        continue
                    message = message[:start] + leaf.head + message[end:]
            else:
                self._note(message)
            renamed.append(message)
        return renamed

    def _note(self, message: Message) -> None:
        if type(message) is Begin:
            self._commit_lsn = message.commit_lsn
            self._of_root.clear()
            self._of_leaf.clear()
            self._note_births(message)
        elif type(message) is Commit:
            for root, _ in self._of_leaf - self._of_root:
                self.truncated[root] = self._commit_lsn + 1
        elif type(message) is bytes and message.startswith(_TRUNCATE):
            self._note_truncate(message)

    def _note_births(self, begin: Begin) -> None:
        """Note tables with a leaf of which a change came before the transaction that made it.

        If that was after a savepoint, its id is another one: it is any that has a smaller id.
        """
        for names, (xid, until) in [*self._unborn.items()]:
            is_over = begin.commit_lsn >= until
            may_be_it = (xid - begin.xid) & 0xFFFFFFFF < 0x80000000
            if may_be_it and not is_over and names in self._early:
                self.mixed[self._by_names[names].root] = begin.commit_lsn + 1
            if is_over or begin.xid == xid:
                del self._unborn[names]

    def _note_truncate(self, change: Change) -> None:
        """Note its table. All changes of one TRUNCATE begin alike: they have one LSN."""
        start = change.find(b'"schema":', 14, wal2json.HEAD)
        names = change[start:-1]
        if (root := self._roots.get(names)) is not None:
            self._of_root.add((root, change[:start]))
        elif (leaf := self._by_names.get(names)) is not None and leaf.until > self._commit_lsn:
            self._of_leaf.add((leaf.root, change[:start]))


def _text(spelled: bytes) -> bytes:
    """Return `schema.name` as a JSON string, from the two names as a change spells them."""
    schema, name = wal2json.names(spelled)
    return schema[:-1] + b"." + name[1:]


def tables_of(roots: Mapping[Table, Root]) -> tuple[Table, ...]:
    """Return the partitioned tables with all their leaves: the slot has to send each of them."""
    tables: list[Table] = []
    for root in roots.values():
        tables += [member.table for member in root.members]
        tables += [leaf for leaf, _ in root.gone]
    return tuple(dict.fromkeys(tables))
