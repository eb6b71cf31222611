"""Takes the needed values out of the plugin's messages, as the database's reader gives them. Pure.

A value stays the JSON that came until it is printed: two values are alike where their bytes are.
The function that cdc.write_reader writes does the same in SQL, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from waltally.tables import Table

NOT_JSON = "the payload is not valid JSON"
UNDECODABLE = "the text of the row does not fit the target's encoding"
UNKNOWN_ACTION = "the action is not known"
NO_TABLE = "the change names no table"
NO_OLD_ROW = "the replica identity carries no old row"

Position = tuple[int, int]
"""A change's commit LSN, in bytes of WAL, and its ordinal in the transaction."""

Image = tuple[bytes | None, ...]
"""The JSON of the needed columns; None of a column that the image lacks."""


class Column(msgspec.Struct, gc=False):
    """A column of an image, as the plugin prints it."""

    name: str
    value: msgspec.Raw


class Message(msgspec.Struct, gc=False):
    """A change; only in the plugin's own form it has a schema, a table and an action for sure."""

    schema: str = ""
    table: str = ""
    columns: list[Column] = []
    identity: list[Column] | None = None
    action: str = ""
    undecodable: object = None
    """What the loader keeps of a row that the target cannot hold as text."""


class Change(NamedTuple):
    """A change of a table that is read; its images are what changes that look alike share."""

    table_no: int | None
    """The table's ordinal among those that are read, from 0; None where it names none."""
    action: str
    problem: str | None
    """Why no model can count it."""
    old: Image | None
    new: Image | None
    """A large value that an update did not change is not in its new image: it is the old one's."""


_Take = Callable[[Sequence[Column]], Image]
Read = Callable[[str | None, bytes], Change | None]
"""From a change's action, where the loader knows it, and its payload; None where it is no change
of any of the tables."""


decode = msgspec.json.Decoder(Message).decode
_decode_text = msgspec.json.Decoder(str).decode


def reader(needed: Sequence[tuple[Table, Sequence[str]]]) -> Read:
    """Return the function that reads messages: of these tables, the values of these columns."""
    images = {
        (table.schema, table.name): (number, _image_reader(columns))
        for number, (table, columns) in enumerate(needed)
    }

    def read(letter: str | None, payload: bytes) -> Change | None:
        if letter is None:
            return read_other(payload)
        message = decode(payload)
        found = images.get((message.schema, message.table))
        return None if found is None else _change(letter, message, *found)

    def read_other(payload: bytes) -> Change | None:
        message = _other_form(payload)
        if message is None:
            return Change(None, "", NOT_JSON, None, None)
        action = message.action
        found = images.get((message.schema, message.table))
        if action in ("B", "C", "M") or (found is None and message.table):
            return None
        if message.undecodable is not None:
            return Change(found and found[0], action, UNDECODABLE, None, None)
        if action not in ("I", "U", "D", "T"):
            return Change(found and found[0], action, UNKNOWN_ACTION, None, None)
        if found is None:
            return Change(None, action, NO_TABLE, None, None)
        return _change(action, message, *found)

    return read


def _change(letter: str, message: Message, number: int, take: _Take) -> Change:
    if letter == "I":
        return Change(number, letter, None, None, take(message.columns))
    if letter == "T":
        return Change(number, letter, None, None, None)
    if not message.identity:
        new = take(message.columns) if letter == "U" else None
        return Change(number, letter, NO_OLD_ROW, None, new)
    old = take(message.identity)
    if letter == "D":
        return Change(number, letter, None, old, None)
    return Change(number, letter, None, old, _completed(take(message.columns), old))


def text_of(value: bytes) -> str | None:
    """Return the text of a value; a number keeps its spelling."""
    first = value[:1]
    if first == b'"':
        return _decode_text(value) if b"\\" in value else value[1:-1].decode()
    return None if first == b"n" else value.decode()


def truncates(rows: Iterable[tuple[Position, bytes]]) -> dict[Table, Position]:
    """Return where each table was last emptied, as these payloads say at their positions."""
    found: dict[Table, Position] = {}
    for position, payload in rows:
        message = _other_form(payload)
        if message is not None and message.action == "T":
            table = Table(message.schema, message.table)
            found[table] = max(found.get(table, position), position)
    return found


def _other_form(payload: bytes) -> Message | None:
    """Return what a message says; None where it is no JSON of such a form."""
    try:
        return decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return None


def _image_reader(names: Sequence[str]) -> _Take:
    """Return the function that takes these columns out of an image.

    A table's images have their columns in one order, so each is looked for where it last was.
    """
    ordinals = [0] * len(names)
    numbered = list(enumerate(names))

    def take(image: Sequence[Column]) -> Image:
        found: list[bytes | None] = []
        size = len(image)
        for number, name in numbered:
            ordinal = ordinals[number]
            if ordinal < size and (column := image[ordinal]).name == name:
                found.append(bytes(column.value))
                continue
            for ordinal, column in enumerate(image):
                if column.name == name:
                    ordinals[number] = ordinal
                    found.append(bytes(column.value))
                    break
            else:
                found.append(None)
        return tuple(found)

    return take


def _completed(new: Image, old: Image) -> Image:
    if None not in new:
        return new
    return tuple(was if now is None else now for now, was in zip(new, old, strict=True))
