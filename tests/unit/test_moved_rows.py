"""A delete from one leaf and an insert into another become an update where they are one row's."""

from __future__ import annotations

import pytest

from loader.capture import wal2json
from loader.capture.stages.moved_rows import MovedRows
from loader.capture.wal2json import Begin, Commit, Keepalive, Message

R = b'"schema":"public","table":"r"'
OTHER = b'"schema":"public","table":"other"'
BEGIN, COMMIT = Begin(0x10, 0x20, 7, 0), Commit(0x20)


def delete(leaf: bytes, key: bytes, table: bytes = R) -> bytes:
    return (
        b'{"action":"D","xid":7,"leaf":"s.%b",%b,"identity":[{"name":"id","value":%b},'
        b'{"name":"d","value":"caf\xe9,\\"identity\\":["}]}' % (leaf, table, key)
    )


def insert(leaf: bytes, key: bytes, table: bytes = R) -> bytes:
    return b'{"action":"I","xid":7,"leaf":"s.%b",%b,"columns":[{"name":"id","value":%b}]}' % (
        *(leaf, table),
        key,
    )


UPDATE = (
    b'{"action":"U","xid":7,"leaf":"s.b",%b,"columns":[{"name":"id","value":1}],'
    b'"identity":[{"name":"id","value":1},{"name":"d","value":"caf\xe9,\\"identity\\":["}]}' % R
)
TRUNCATE = b'{"action":"T","xid":7,%b}' % R


def join(*messages: Message, key: tuple[str, ...] = ("id",)) -> list[Message]:
    """Join messages that come one by one."""
    moved = MovedRows({R: key})
    return [each for message in messages for each in moved.join([message])]


def test_a_row_that_moves_is_an_update() -> None:
    found = join(BEGIN, delete(b"a", b"1"), insert(b"b", b"1"), COMMIT)
    assert found == [BEGIN, UPDATE, COMMIT]
    assert wal2json.action(UPDATE.replace(b"\xe9", b"e")) == b"U"


def test_what_comes_between_from_elsewhere_is_no_matter() -> None:
    between: list[Message] = [
        Keepalive(1, False),
        delete(b"x", b"1", OTHER),
        insert(b"y", b"1", OTHER),
    ]
    found = join(BEGIN, delete(b"a", b"1"), *between, insert(b"b", b"1"), COMMIT)
    assert found == [BEGIN, *between, UPDATE, COMMIT]


@pytest.mark.parametrize(
    "changes",
    [
        [delete(b"a", b"1"), insert(b"b", b"2")],
        [delete(b"a", b"1"), insert(b"a", b"1")],
        [delete(b"a", b"1"), TRUNCATE, insert(b"b", b"1")],
        [delete(b"a", b"1"), delete(b"a", b"2"), insert(b"b", b"1")],
        [delete(b"a", b"1"), delete(b"b", b"1")],
        [delete(b"a", b"1", OTHER), insert(b"b", b"1", OTHER)],
    ],
    ids=["another key", "one leaf", "truncated", "another delete", "no insert", "not ignored"],
)
def test_anything_else_stays_as_it_is(changes: list[Message]) -> None:
    assert join(BEGIN, *changes, COMMIT) == [BEGIN, *changes, COMMIT]


@pytest.mark.parametrize("key", [(), ("id", "missing")])
def test_without_a_key_it_is_noted_that_nobody_knows(key: tuple[str, ...]) -> None:
    moved = MovedRows({R: key})
    changes: list[Message] = [BEGIN, delete(b"a", b"1"), insert(b"b", b"1"), COMMIT]
    assert moved.join(changes) == changes
    assert moved.undecided == {R: 0x11}
