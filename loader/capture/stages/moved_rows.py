"""Joins the delete and the insert of a row that moves between leaves into one update. Pure.

An update that moves a row comes as a delete from one leaf, then an insert into another. Where a
fact ignores the deletes of the table, the row would count under its old and its new values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from loader.capture.wal2json import Begin, Change, Keepalive, Message

_DELETE, _INSERT, _UPDATE = (b'{"action":"%b"' % letter for letter in (b"D", b"I", b"U"))
_IDENTITY = b',"identity":['
_STRING = rb'"(?:[^"\\]|\\.)*"'
_HEAD = 1024
"""Bytes at the start of a change that contain the names of its leaf and its table."""
_PLACE = re.compile(rb'(?:"leaf":(%b),)?("schema":%b,"table":%b)' % ((_STRING,) * 3))


class _Column(msgspec.Struct, gc=False):
    name: str
    value: msgspec.Raw


class _Images(msgspec.Struct, gc=False):
    columns: list[_Column] = []
    identity: list[_Column] = []


_decode = msgspec.json.Decoder(_Images).decode


class MovedRows:
    """Holds a delete from a leaf back until the table's next change shows whether the row moved.

    The table of a row that moves gets no change between the two. Other tables may, from triggers.
    """

    def __init__(self, keys: Mapping[bytes, tuple[str, ...]]) -> None:
        """`keys` has the tables whose deletes a fact ignores, as changes name them.

        The columns are those of the primary key that no partition depends on, their bytes as
        Latin-1. Where there is none, nothing tells a row that moves from two rows.
        """
        self.undecided: dict[bytes, int] = {}
        """By table, a position after the last two changes that may have been one row's move.

        Another thread takes it."""
        self._keys = keys
        self._commit_lsn = 0
        self._held: tuple[Change, bytes, bytes] | None = None
        """A delete, its leaf and its table."""

    def join(self, messages: list[Message]) -> list[Message]:
        """Return the messages, and what was held back before them, with moves as updates."""
        found: list[Message] = []
        for message in messages:
            if type(message) is bytes:
                if self._held is not None or message.startswith(_DELETE):
                    self._add(message, found)
                    continue
            elif not isinstance(message, Keepalive):
                self._release(found)
                if isinstance(message, Begin):
                    self._commit_lsn = message.commit_lsn
            found.append(message)
        return found

    def _add(self, change: Change, found: list[Message]) -> None:
        place = _PLACE.search(change[:_HEAD])
        leaf, table = (None, b"") if place is None else place.groups()
        if self._held is not None and table == self._held[2]:
            if leaf not in (None, self._held[1]) and change.startswith(_INSERT):
                is_move = self._is_move(self._held[0], change, table)
                if is_move:
                    found.append(_joined(self._held[0], change))
                    self._held = None
                    return
                if is_move is None:
                    self.undecided[table] = self._commit_lsn + 1
            self._release(found)
        if self._held is None and leaf and table in self._keys and change.startswith(_DELETE):
            self._held = (change, leaf, table)
        else:
            found.append(change)

    def _release(self, found: list[Message]) -> None:
        if self._held is not None:
            found.append(self._held[0])
            self._held = None

    def _is_move(self, delete: Change, insert: Change, table: bytes) -> bool | None:
        """Return whether both are of one row; None where that cannot be told."""
        key = self._keys[table]
        try:
            old, new = (_decode(each.decode("latin-1").encode()) for each in (delete, insert))
        except msgspec.DecodeError:
            return None
        before = {each.name: bytes(each.value) for each in old.identity}
        after = {each.name: bytes(each.value) for each in new.columns}
        if not key or not before.keys() & after.keys() >= set(key):
            return None
        return all(before[name] == after[name] for name in key)


def _joined(delete: Change, insert: Change) -> Change:
    """Return the update, in the plugin's own form: columns before identity."""
    return _UPDATE + insert[len(_INSERT) : -1] + delete[delete.index(_IDENTITY) :]
