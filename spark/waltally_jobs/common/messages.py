"""Takes the needed values out of the plugin's messages, as the database's reader gives them. Pure.

A value stays the JSON that came until it is printed: two values are alike where their bytes are.
The function that cdc.write_reader writes does the same in SQL, and a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import msgspec

from waltally.tables import Table

NOT_JSON = "the payload is not valid JSON"
UNDECODABLE = "the text of the row does not fit the target's encoding"
UNKNOWN_ACTION = "the action is not known"
NO_TABLE = "the change names no table"
NO_OLD_ROW = "the replica identity carries no old row"
NO_ROW = "the change has no row"

Image = tuple[bytes | None, ...]
"""The JSON of the needed columns; None of a column that the image lacks."""


class Column(msgspec.Struct, gc=False):
    """A column of an image, as the plugin prints it."""

    name: str
    value: msgspec.Raw


class Message(msgspec.Struct, gc=False):
    """A change in the plugin's own form."""

    schema: str
    table: str
    columns: list[Column] = []
    identity: list[Column] | None = None


class Change(NamedTuple):
    """A change of a table that is read; its images are what changes that look alike share."""

    table_no: int | None
    """The table's place among those that are read, from 0; None where it names none."""
    action: str
    problem: str | None
    """Why no model can count it."""
    old: Image | None
    new: Image | None
    """A large value that an update did not change is not in its new image: it is the old one's."""


Read = Callable[[str | None, bytes], Change | None]
"""From a change's action, where the loader knows it, and its payload; None where it is no change
of any of the tables."""

_decode = msgspec.json.Decoder(Message).decode
_decode_text = msgspec.json.Decoder(str).decode


def reader(needed: Sequence[tuple[Table, Sequence[str]]]) -> Read:
    """Return the function that reads messages: of these tables, the values of these columns."""
    images = {
        (table.schema, table.name): (number, _image_reader(columns))
        for number, (table, columns) in enumerate(needed)
    }
    labels = {f"{schema}.{name}": found for (schema, name), found in images.items()}

    def read(letter: str | None, payload: bytes) -> Change | None:
        if letter is None:
            return _read_other_form(labels, payload)
        message = _decode(payload)
        found = images.get((message.schema, message.table))
        if found is None:
            return None
        number, take = found
        if letter == "I":
            return Change(number, letter, None, None, take(message.columns))
        if letter == "T":
            return Change(number, letter, None, None, None)
        if message.identity is None:
            return Change(number, letter, NO_OLD_ROW, None, None)
        old = take(message.identity)
        if letter == "D":
            return Change(number, letter, None, old, None)
        return Change(number, letter, None, old, _completed(take(message.columns), old))

    return read


def text_of(value: bytes) -> str | None:
    """Return the text of a value; a number keeps its spelling."""
    first = value[:1]
    if first == b'"':
        return _decode_text(value) if b"\\" in value else value[1:-1].decode()
    return None if first == b"n" else value.decode()


def truncated_table(payload: bytes) -> Table | None:
    """Return the table that a message says was truncated; None where it says nothing like that."""
    try:
        fields = _fields(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.get("action") != "T":
        return None
    return Table(_printed(fields.get("schema")) or "", _printed(fields.get("table")) or "")


def _image_reader(names: Sequence[str]) -> Callable[[Sequence[Column]], Image]:
    """Return the function that takes these columns out of an image.

    A table's images have their columns in one order, so each is looked for where it last was.
    """
    places = [0] * len(names)
    numbered = list(enumerate(names))

    def take(image: Sequence[Column]) -> Image:
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

    return take


def _completed(new: Image, old: Image) -> Image:
    if None not in new:
        return new
    return tuple(was if now is None else now for now, was in zip(new, old, strict=True))


_Tables = Mapping[str, tuple[int, Callable[[Sequence[Column]], Image]]]


def _read_other_form(tables: _Tables, payload: bytes) -> Change | None:
    """Read what may be anything: a row of an older loader, or one that no plugin would send."""
    try:
        said = _fields(payload)
    except (ValueError, RecursionError):
        return Change(None, "", NOT_JSON, None, None)
    fields = said if isinstance(said, dict) else {}
    action = _printed(fields.get("action")) or ""
    if action in ("B", "C", "M"):
        return None
    number: int | None = None
    take = _image_reader(())
    if {"schema", "table"} <= {*fields}:
        name = f"{_printed(fields['schema'])}.{_printed(fields['table'])}"
        if name not in tables:
            return None
        number, take = tables[name]
    if "undecodable" in fields:
        return Change(number, action, UNDECODABLE, None, None)
    if action not in ("I", "U", "D", "T"):
        return Change(number, action, UNKNOWN_ACTION, None, None)
    if number is None:
        return Change(number, action, NO_TABLE, None, None)
    old = _image(fields.get("identity")) if action in "UD" else None
    new = _image(fields.get("columns")) if action in "UI" else None
    if action in "UD" and old is None:
        return Change(number, action, NO_OLD_ROW, None, None)
    if action in "UI" and new is None:
        return Change(number, action, NO_ROW, None, None)
    before = None if old is None else take(old)
    after = None if new is None else take(new)
    if before is not None and after is not None:
        after = _completed(after, before)
    return Change(number, action, None, before, after)


class _Number(str):
    """A number as it was written."""


def _fields(payload: bytes) -> Any:
    """Return what a message says. Raises ValueError or RecursionError where no jsonb holds it."""
    found = json.loads(payload, parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
    for text in _texts(found):
        # PostgreSQL has no text with one half of a surrogate pair, which cannot be encoded.
        if b"\0" in text.encode():
            raise ValueError(text)
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _printed(value: Any) -> str | None:
    """Return a value as `->>` of a jsonb gives it."""
    if isinstance(value, _Number):
        number = Decimal(value)
        return f"{number:f}" if number else f"{number:f}".removeprefix("-")
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _image(value: Any) -> list[Column] | None:
    """Return an image in any form; what is no column is left out."""
    if not isinstance(value, list) or not value:
        return None
    return [
        Column(str(each["name"]), msgspec.Raw(_as_sent(each.get("value"))))
        for each in value
        if isinstance(each, dict) and "name" in each
    ]


def _as_sent(value: Any) -> bytes:
    is_text = isinstance(value, str) and not isinstance(value, _Number)
    text = json.dumps(value, ensure_ascii=False) if is_text else _printed(value)
    return b"null" if text is None else text.encode()
