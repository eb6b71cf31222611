"""What is at a path of a JSON document, as the operator #>> of type json gives it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

# PostgreSQL has no text with U+0000 or with one half of a surrogate pair.
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_UNREADABLE = re.compile(r"\\u(0000|[dD][89a-fA-F])")
_BLANKS = re.compile(r"[ \t\n\r]*")
_INDEX = re.compile(r"\s*[-+]?[0-9]+")


def check(document: str) -> None:
    """Raise ValueError, or RecursionError, where the database does not take a text for JSON."""
    _DECODER.decode(document)
    if "\\u" in document and _UNREADABLE.search(_PAIR.sub("", document.replace("\\\\", ""))):
        raise ValueError("an escape of a character that no text has")


def text_at(document: str, path: Sequence[str]) -> str | None:
    """Return what `document::json #>> path` gives. Raises ValueError, RecursionError."""
    check(document)
    places = [_after(document, 0)]
    for name in path:
        places = [at for place in places for at in _children(document, place, name)]
    if not places:
        return None
    value, end = _DECODER.raw_decode(document, places[-1])
    if value is None or isinstance(value, str):
        return value
    return document[places[-1] : end]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


# Numbers keep their text.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def _children(document: str, at: int, name: str) -> Iterator[int]:
    """Yield where the values with this name are; the last of the same name counts."""
    if document[at] == "{":
        at = _after(document, at + 1)
        while document[at] != "}":
            key, at = _DECODER.raw_decode(document, at)
            at = _after(document, _after(document, at) + 1)
            if key == name:
                yield at
            at = _next(document, at)
    elif document[at] == "[" and _INDEX.fullmatch(name):
        places = []
        at = _after(document, at + 1)
        while document[at] != "]":
            places.append(at)
            at = _next(document, at)
        if -len(places) <= int(name) < len(places):
            yield places[int(name)]


def _next(document: str, at: int) -> int:
    """Return where the next name or value is, or the end of the object or array."""
    at = _after(document, _DECODER.raw_decode(document, at)[1])
    return _after(document, at + 1) if document[at] == "," else at


def _after(document: str, at: int) -> int:
    blanks = _BLANKS.match(document, at)
    assert blanks is not None
    return blanks.end()
