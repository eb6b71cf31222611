"""Joins the delete and the insert of a row that moves between leaves into one update. Pure.

An update that moves a row comes as a delete from one leaf, then an insert into another. Where a
model ignores the deletes of the table, the row would count under its old and its new values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from loader.capture.wal2json import Begin, Change, Column, Keepalive, Message, read_row

_DELETE, _INSERT, _UPDATE = (b'{"action":"%b"' % letter for letter in (b"D", b"I", b"U"))
_IDENTITY = b',"identity":['
_STRING = rb'"(?:[^"\\]|\\.)*"'
_HEAD = 1024
"""Bytes at the start of a change that contain the names of its leaf and its table."""
_NAMES = re.compile(rb'(?:"leaf":(%b),)?("schema":%b,"table":%b)' % ((_STRING,) * 3))


class MovedRows:
    """Keeps a delete from a leaf until the table's next change shows whether the row moved.

    Between delete and insert of a moved row come only changes of other tables, from triggers.
    """

    def __init__(self, keys: Mapping[bytes, tuple[str, ...]]) -> None:
        """`keys` has the tables whose deletes a model ignores, with columns that a move keeps.

        These are the columns of the primary key outside of any partition key, their bytes as
        Latin-1. Without them, a row that moves cannot be told from two rows.
        """
        self.undecided: dict[bytes, int] = {}
        """By table, a position after the last two changes that may have been one row's move.

        The storing thread removes it."""
        self._keys = keys
        self._commit_lsn = 0
        self._held: tuple[Change, bytes, bytes] | None = None
        """A delete, its leaf and its table."""

    def join(self, messages: list[Message]) -> list[Message]:
        """Return the delete that was kept before and the messages, with moves as updates."""
        joined: list[Message] = []
        for message in messages:
            if type(message) is bytes:
                if self._held is not None or message.startswith(_DELETE):
                    self._add(message, joined)
                    continue
            elif not isinstance(message, Keepalive):
                self._release(joined)
                if isinstance(message, Begin):
                    self._commit_lsn = message.commit_lsn
            joined.append(message)
        return joined

    def _add(self, change: Change, joined: list[Message]) -> None:
        names = _NAMES.search(change[:_HEAD])
        leaf, table = (None, b"") if names is None else names.groups()
        if self._held is not None and table == self._held[2]:
            if leaf not in (None, self._held[1]) and change.startswith(_INSERT):
                is_move = self._is_move(self._held[0], change, table)
                if is_move:
                    joined.append(_as_update(self._held[0], change))
                    self._held = None
                    return
                if is_move is None:
                    self.undecided[table] = self._commit_lsn + 1
            self._release(joined)
        if self._held is None and leaf and table in self._keys and change.startswith(_DELETE):
            self._held = (change, leaf, table)
        else:
            joined.append(change)

    def _release(self, joined: list[Message]) -> None:
        if self._held is not None:
            joined.append(self._held[0])
            self._held = None

    def _is_move(self, delete: Change, insert: Change, table: bytes) -> bool | None:
        """Return whether both are of one row; None where nobody can say."""
        key = self._keys[table]
        try:
            old, new = (read_row(c.decode("latin-1").encode()) for c in (delete, insert))
        except msgspec.DecodeError:
            return None
        before, after = _values(old.identity), _values(new.columns)
        if not key or not before.keys() & after.keys() >= set(key):
            return None
        return all(before[name] == after[name] for name in key)


def _as_update(delete: Change, insert: Change) -> Change:
    """Return the update, in the plugin's own form: columns before identity."""
    return _UPDATE + insert[len(_INSERT) : -1] + delete[delete.index(_IDENTITY) :]


def _values(image: list[Column] | UnsetType) -> dict[str, bytes]:
    return {} if image is UNSET else {column.name: bytes(column.value) for column in image}
