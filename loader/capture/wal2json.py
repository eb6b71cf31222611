"""wal2json's format version 2: one JSON text per message, changes between begin and commit.

Pure: no driver. A change is kept as the bytes that came; only stages of the stream read one.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from waltally import lsn
from waltally.tables import Table

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_ACTION = b'{"action":"'
_WITHHELD = re.compile(r'(?s)no tuple identifier for (UPDATE|DELETE) in table "(.*)"\."(.*)"')
_NAMES = re.compile(rb'"schema":("(?:[^"\\]|\\.)*"),"table":("(?:[^"\\]|\\.)*")')
_BEGIN, _COMMIT, _MESSAGE = b"B", b"C", b"M"
_ROWS = frozenset(_ACTION + letter for letter in (b"I", b"U", b"D"))
IMAGES = {
    b'{"action":"I",': b',"columns":[',
    b'{"action":"U",': b',"columns":[',
    b'{"action":"D",': b',"identity":[',
    b'{"action":"T",': b"",
}
"""By the start of a change, what ends its head. A TRUNCATE has no images."""
HEAD = 512
"""Bytes at the start of a change that contain the name of its table."""
# Checks the syntax to the end and keeps nothing.
_check = msgspec.json.Decoder(Raw).decode


class Bound(Struct, gc=False):
    """A begin or a commit; both have the position of the end."""

    xid: int
    timestamp: str
    lsn: str
    nextlsn: str


_read_bound = msgspec.json.Decoder(Bound).decode


class Column(Struct, gc=False):
    """A column of an image."""

    name: str
    value: Raw


class Row(Struct, gc=False, omit_defaults=True, kw_only=True):
    """The fields that a change may have; the decoder drops all others."""

    action: Literal["I", "U", "D", "T"]
    xid: int | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET
    lsn: str | UnsetType = UNSET
    leaf: str | UnsetType = UNSET
    schema: str
    table: str
    warning: str | UnsetType = UNSET
    columns: list[Column] | UnsetType = UNSET
    identity: list[Column] | UnsetType = UNSET


read_row = msgspec.json.Decoder(Row).decode
"""Reads a change in UTF-8. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError."""
write_row = msgspec.json.Encoder().encode


class Begin(NamedTuple):
    """The start of a source transaction; it already has the position of the end."""

    commit_lsn: int
    """Where the commit record starts: the position of the whole transaction."""
    end_lsn: int
    """Where the commit record ends: the position to confirm once the transaction is stored."""
    xid: int
    committed_at: int
    """Microseconds since 2000-01-01 UTC, the wire form of a timestamptz."""

    @property
    def committed_seconds(self) -> float:
        """When it was committed, in seconds since 1970."""
        return _EPOCH.timestamp() + self.committed_at / 1e6


class Commit(NamedTuple):
    """The end of a source transaction."""

    end_lsn: int


Change = bytes
"""One change, untouched."""


class Keepalive(NamedTuple):
    """The server says that it has sent every commit before `position`."""

    position: int
    wants_reply: bool


Message = Begin | Change | Commit | Keepalive


class WholeTransactions:
    """Checks that a stream is one of whole transactions: else nothing of it may be stored."""

    def __init__(self) -> None:
        self._begin: Begin | None = None

    def check(self, message: Message) -> None:
        """Raise ValueError for a message that cannot follow the last one."""
        if isinstance(message, bytes):
            if self._begin is None:
                raise ValueError("a change comes outside a transaction")
        elif isinstance(message, Begin):
            if self._begin is not None:
                raise ValueError("a transaction begins inside another")
            self._begin = message
        elif isinstance(message, Commit):
            if self._begin is None or self._begin.end_lsn != message.end_lsn:
                raise ValueError("a transaction ends that did not begin")
            self._begin = None


def decode(payload: bytes) -> Message | None:
    """Return what the payload is; None for a logical message.

    Anything that is neither a begin, a commit nor a logical message is a change and comes back
    as it is, also where it is no valid JSON. Raises ValueError where a begin or a commit lacks
    its positions: the slot is then read without `include-lsn` and nothing can be placed.
    """
    if payload[:12] in _ROWS or payload[:11] != _ACTION:
        return payload
    letter = payload[11:12]
    if letter in (_BEGIN, _COMMIT):
        try:
            bound = _read_bound(payload)
        except msgspec.DecodeError as error:
            raise ValueError(f"a begin or a commit without its positions: {error}") from None
        end_lsn = lsn.parse(bound.nextlsn)
        if letter == _COMMIT:
            return Commit(end_lsn)
        return Begin(lsn.parse(bound.lsn), end_lsn, bound.xid, _microseconds(bound.timestamp))
    if letter == _MESSAGE:
        return None
    return payload


def action(change: Change) -> bytes:
    """Return the letter of the action, empty unless the change is JSON in the plugin's own form.

    In that form the action comes first, then the fields of the message, then the columns of an
    insert or an update, or the identity of a delete. A change with a letter can be read by
    searching for names, because quotes without a backslash are structure.
    """
    images = IMAGES.get(change[:14])
    if images is None:
        return b""
    # The images open the first bracket. A name with a bracket makes the form look like another,
    # which costs the models some time.
    end = change.find(b"[", 14, HEAD) + 1
    if change[end - len(images) : end] != images:
        return b""
    try:
        _check(change)
    except msgspec.DecodeError:
        return b""
    return change[11:12]


def names(change: Change) -> tuple[bytes, ...]:
    """Return schema and table from the head of a change, as JSON; empty where it has none."""
    match = _NAMES.search(change[:HEAD])
    return (match[1], match[2]) if match is not None else ()


def withheld(warning: str, root_of: Mapping[Table, Table]) -> Change | None:
    """Return a change for one that the plugin only warned of; None for any other warning.

    The plugin drops updates and deletes of a table without a replica identity. We keep such a
    change without images, so that the models reject it in its place. Without it the count would
    silently be wrong. `root_of` has, by partition, the table under whose name changes are kept.
    """
    match = _WITHHELD.search(warning)
    if match is None:
        return None
    action, schema, name = match.groups()
    table = Table(schema, name)
    table = root_of.get(table, table)
    change = {"action": action[0], "schema": table.schema, "table": table.name, "warning": match[0]}
    return json.dumps(change, separators=(",", ":")).encode()


def _microseconds(timestamp: str) -> int:
    """Return microseconds since 2000 for a timestamp as the server prints it under UTC."""
    since = datetime.fromisoformat(timestamp) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def options(tables: list[tuple[str, str]], ignored_origin: int | None) -> dict[str, str]:
    """Return the plugin's options for these (schema, table) pairs.

    `ignored_origin` is a replication origin's number whose changes the plugin drops unread.
    Only options that wal2json 2.5 knows: it refuses any other.
    """
    chosen = {
        "format-version": "2",
        "include-lsn": "true",
        "include-xids": "true",
        "include-timestamp": "true",
        "include-types": "false",
        # All logical messages stay at the server. Whoever knew the prefix could write one that is
        # too long for the plugin, which would end the stream for good.
        "add-msg-prefixes": f"waltally-{secrets.token_hex(16)}",
        "add-tables": ",".join(f"{_escape(schema)}.{_escape(table)}" for schema, table in tables),
    }
    if ignored_origin is not None:
        chosen["filter-origins"] = str(ignored_origin)
    return chosen


def _escape(name: str) -> str:
    """Return a name as `add-tables` wants it: comma, dot, blank and the like behind a backslash."""
    return "".join(f"\\{c}" if c in " \t\n\v\f\r'\\,.*" else c for c in name)
