"""Reads the plugin's messages: the JSON of a change as its action, table and images. Pure.

A value stays the bytes that came, so that two values are alike where their bytes are, and a number
keeps its spelling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rules import documents, numbers
from waltally.tables import Table

NOT_JSON = "the payload is not valid JSON"
UNDECODABLE = "the text of the row does not fit the target's encoding"
UNKNOWN_ACTION = "the action is not known"
NO_TABLE = "the change names no table"
NO_OLD_ROW = "the replica identity carries no old row"

Values = tuple[bytes | None, ...]
"""The JSON of an image's columns; None of a column that the image lacks."""


class Column(msgspec.Struct, gc=False):
    """A column of an image, as the plugin prints it."""

    name: str
    value: msgspec.Raw


class Message(msgspec.Struct, gc=False):
    """A change in the plugin's own form."""

    schema: str
    table: str
    columns: list[Column] | None = None
    identity: list[Column] | None = None


class Change(NamedTuple):
    """A change of a table that is read: what changes that look alike have in common."""

    table: int | None
    """The table's place among those that are read; None where it names none."""
    action: str
    problem: str | None
    """Why no fact can count it."""
    old: Values | None
    new: Values | None
    """None where it has no such image. What an update's new image lacks is the old image's: it is
    stored out of line and did not change."""


Payload = str | bytes
"""UTF-8, as Arrow has it, or a text."""

Read = Callable[[str | None, Payload], Change | None]
"""From a change's action, where the loader knows it, and its payload; None of what is no change of
any of the tables, and of a TRUNCATE."""

_decode = msgspec.json.Decoder(Message).decode
_decode_image = msgspec.json.Decoder(list[Column]).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_all = msgspec.json.Decoder().decode


def reader(needed: Mapping[Table, Sequence[str]]) -> Read:
    """Return the function that reads messages: of these tables, the values of these columns."""
    images: _Images = {
        (table.schema, table.name): (number, _image_reader(columns))
        for number, (table, columns) in enumerate(needed.items())
    }

    def read(letter: str | None, payload: Payload) -> Change | None:
        if letter is None or letter == "T":
            return _read_any(images, payload)
        try:
            message = _decode(payload)
        except msgspec.MsgspecError:
            return _read_any(images, payload)
        found = images.get((message.schema, message.table))
        if found is None:
            return None
        table, values = found
        if letter == "I":
            return Change(table, letter, None, None, values(message.columns or ()))
        if message.identity is None:
            return Change(table, letter, NO_OLD_ROW, None, None)
        old = values(message.identity)
        if letter == "D":
            return Change(table, letter, None, old, None)
        new = values(message.columns or ())
        return Change(table, letter, None, old, _completed(new, old))

    return read


def truncated_table(payload: Payload) -> Table | None:
    """Return the table that a message says was truncated; None where it says nothing like that."""
    try:
        fields = _decode_fields(payload)
        schema, table = text_of(fields["schema"]), text_of(fields["table"])
        is_truncate = text_of(fields["action"]) == "T"
    except (msgspec.MsgspecError, ValueError, KeyError):
        return None
    return (
        Table(schema, table) if is_truncate and schema is not None and table is not None else None
    )


def text_of(value: bytes | msgspec.Raw) -> str | None:
    """Return the text of a JSON value, as `value #>> '{}'` of a jsonb gives it; None for null."""
    raw = bytes(value)
    first = raw[:1]
    if first == b'"':
        return str(_decode_all(raw)) if b"\\" in raw else raw[1:-1].decode()
    if first == b"n":
        return None
    if first in b"tf":
        return raw.decode()
    if first in b"{[":
        return _print_json(json.loads(raw, parse_int=_Printed, parse_float=_Printed))
    text = raw.decode()
    return text if text.isdecimal() else numbers.plain_digits(text)


def _image_reader(names: Sequence[str]) -> Callable[[Sequence[Column]], Values]:
    """Return the function that takes these columns out of an image.

    A table's images have their columns in one order, so each is looked for where it last was.
    """
    places = [0] * len(names)
    numbered = list(enumerate(names))

    def find(image: Sequence[Column]) -> Values:
        found: list[bytes | None] = []
        size = len(image)
        for number, name in numbered:
            place = places[number]
            if place < size and (column := image[place]).name == name:
                found.append(bytes(column.value))
                continue
            for place, column in enumerate(image):
                if column.name == name:
                    places[number] = place
                    found.append(bytes(column.value))
                    break
            else:
                found.append(None)
        return tuple(found)

    return find


def _completed(new: Values, old: Values) -> Values:
    if None not in new:
        return new
    return tuple(was if now is None else now for now, was in zip(new, old, strict=True))


_Images = dict[tuple[str, str], tuple[int, Callable[[Sequence[Column]], Values]]]


def _read_any(images: _Images, payload: Payload) -> Change | None:
    """Read what may be anything: a row of an older loader, or one that no plugin would send."""
    try:
        documents.check(payload if isinstance(payload, str) else payload.decode())
    except (ValueError, RecursionError):
        return Change(None, "", NOT_JSON, None, None)
    try:
        fields = _decode_fields(payload)
    except msgspec.MsgspecError:
        fields = {}
    action = text_of(fields["action"]) if "action" in fields else None
    if action in ("B", "C", "M"):
        return None
    table: int | None = None
    values = _image_reader(())
    if "schema" in fields and "table" in fields:
        name = (text_of(fields["schema"]) or "", text_of(fields["table"]) or "")
        if name not in images:
            return None
        table, values = images[name]
    if "undecodable" in fields:
        return Change(table, action or "", UNDECODABLE, None, None)
    if action is None or action not in ("I", "U", "D", "T"):
        return Change(table, action or "", UNKNOWN_ACTION, None, None)
    if table is None:
        return Change(table, action, NO_TABLE, None, None)
    if action == "T":
        return None
    if action == "I":
        return Change(table, action, None, None, values(_image(fields.get("columns"))))
    if "identity" not in fields:
        return Change(table, action, NO_OLD_ROW, None, None)
    old = values(_image(fields["identity"]))
    if action == "D":
        return Change(table, action, None, old, None)
    return Change(table, action, None, old, _completed(values(_image(fields.get("columns"))), old))


def _image(value: msgspec.Raw | None) -> Sequence[Column]:
    """Return an image in any form; what is no column is left out."""
    if value is None:
        return ()
    try:
        return _decode_image(value)
    except msgspec.MsgspecError:
        return ()


class _Printed(str):
    """A number as it was written."""


def _print_json(value: Any) -> str:
    """Return JSON as jsonb prints it."""
    if isinstance(value, _Printed):
        return numbers.plain_digits(value)
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
        pairs = (f"{_print_json(name)}: {_print_json(value[name])}" for name in names)
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_print_json, value))}]"
    return json.dumps(value, ensure_ascii=False)
