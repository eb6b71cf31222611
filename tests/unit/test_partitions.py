"""Partitioned tables: whether rows came or went, and what their changes are named."""

from __future__ import annotations

from dataclasses import replace

from loader.capture import wal2json
from loader.capture.stages.leaf_names import LeafNames
from loader.capture.stages.moved_rows import MovedRows
from loader.capture.wal2json import Begin, Commit, Keepalive, Message
from loader.staging.logged_tables import Judged, Member, Root, from_row, judge, to_row, unfinished
from waltally.tables import Table

ROOT = Member(1, 0, "", "10", "10", "p", "p", "public", "r")
OLD = Member(2, 1, "20", "11", "11", "r", "p", "public", "old")
NEW = Member(3, 1, "30", "30", "30", "r", "p", "other", "new")


def found(*members: Member, at: int = 0x90) -> Root:
    return Root(at, (ROOT, *members))


BEFORE = found(OLD, at=0x50)


def judged(now: Root, present: set[int] | None = None, counts_deletes: bool = True) -> Judged:
    return judge(BEFORE, now, present or set(), counts_deletes, 0x60)


def test_what_is_the_same_is_stored_as_it_was_and_a_leaf_that_came_empty_changes_nothing() -> None:
    assert judged(found(OLD)) == Judged(BEFORE, False)
    renamed = replace(ROOT, named="99", name="other")
    assert not judged(Root(0x90, (renamed, OLD))).has_gap, "leaves have names of their own"
    came = judged(found(OLD, NEW))
    assert came == Judged(replace(found(OLD, NEW), young=((NEW.oid, 0x90),)), False)
    for position, young in ((0x8F, came.root.young), (0x90, ())):
        later = judge(came.root, found(OLD, NEW, at=0xA0), set(), True, position)
        assert (later.root.young, later.has_gap) == (young, False)


def test_a_leaf_that_was_elsewhere_may_have_brought_rows() -> None:
    for leaves in (
        (OLD, replace(NEW, attached="31")),
        (OLD, replace(NEW, named="31", name="renamed")),
        (replace(OLD, attached="21"),),
        (replace(OLD, named="12"),),
        (replace(OLD, parent=7),),
        (replace(OLD, persistence="u"),),
        (replace(OLD, name="away"),),
    ):
        for counts_deletes in (True, False):
            assert judged(found(*leaves), counts_deletes=counts_deletes).has_gap


def test_a_dropped_leaf_takes_its_rows_along_and_is_a_purge_where_deletes_are_ignored() -> None:
    assert "public.old was detached or dropped" in judged(found()).event
    gone = judged(found(), counts_deletes=False)
    assert not gone.has_gap
    assert gone.root.gone == ((OLD.table, 0x90),), "its last changes are still to come"
    assert gone.root.emptied_lsn == 0x90
    later = judge(gone.root, found(at=0xA0), set(), False, 0x91)
    assert later.root.gone == ()
    assert later.root.emptied_lsn == 0x90
    detached = judged(found(), {OLD.oid}, False)
    assert detached.has_gap, "rows may have come"
    assert detached.root.emptied_lsn == 0x90


def test_an_unknown_or_another_table_has_gap() -> None:
    assert judge(None, found(OLD), set(), True, 0).has_gap
    assert judged(Root(0x90, (replace(ROOT, oid=9), OLD))).has_gap


def test_what_is_stored_is_read_again() -> None:
    root = replace(BEFORE, gone=((NEW.table, 0x70),), emptied_lsn=0x80, young=((2, 0x90),))
    assert from_row(to_row(root)) == root
    assert from_row(to_row(BEFORE)) == BEFORE


def test_a_streamed_transaction_may_not_be_visible_yet() -> None:
    # The ids of the WAL have no epoch.
    epoch = 3 << 32
    for snapshot, xids, expected in (
        ("5:9:", {5, 8}, False),
        ("5:9:6,7", {5, 8}, False),
        ("5:9:6,7", {5, 7}, True),
        ("5:9:", {9}, True),
        (f"{epoch + 5}:{epoch + 9}:{epoch + 7}", {7}, True),
        (f"{epoch + 5}:{epoch + 9}:", {8, 0xFFFFFFF0}, False),
        (f"{epoch - 5}:{epoch - 2}:", {1}, True),
        ("5:9:", set[int](), False),
    ):
        assert unfinished(snapshot, xids) is expected, (snapshot, xids)


R, LEAF, GONE = Table("public", "r"), Table("s", 'le,"af'), Table("s", "gone")
PARTED = Root(
    0x50,
    (
        Member(1, 0, "", "1", "1", "p", "p", R.schema, R.name),
        Member(2, 1, "2", "2", "2", "r", "p", LEAF.schema, LEAF.name),
    ),
    gone=((GONE, 0x30),),
)
SPELLED = {
    R: b'"schema":"public","table":"r"',
    LEAF: b'"schema":"s","table":"le,\\"af"',
    GONE: b'"schema":"s","table":"gone"',
}
INSERT = b'{"action":"I","xid":7,"lsn":"0/1",%b,"columns":[{"name":"table","value":"r"}]}'
DELETE = b'{"action":"D","xid":7,"lsn":"0/1",%b,"identity":[]}'
TRUNCATE = b'{"action":"T","xid":7,"lsn":"0/%d",%b}'


def names() -> LeafNames:
    return LeafNames({R: PARTED}, SPELLED)


def begin(commit_lsn: int) -> bytes:
    at = b"0/%X" % commit_lsn
    return (
        b'{"action":"B","xid":7,"timestamp":"2026-01-01 00:00:00+00",'
        b'"lsn":"%b","nextlsn":"%b"}' % (at, at)
    )


def read(names: LeafNames, *payloads: bytes) -> list[Message]:
    """Read messages that come one by one."""
    decoded = (wal2json.decode(payload) for payload in payloads)
    return [each for message in decoded if message for each in names.rename([message])]


def ended(names: LeafNames, commit_lsn: int, *payloads: bytes) -> list[Message]:
    """Read a transaction; return its changes."""
    commit = begin(commit_lsn).replace(b'"B"', b'"C"')
    first, *changes, last = read(names, begin(commit_lsn), *payloads, commit)
    assert (type(first), type(last)) == (Begin, Commit)
    return changes


def test_a_change_gets_the_root_s_name_and_keeps_the_leaf_s() -> None:
    named = b'"leaf":"s.le,\\"af","schema":"public","table":"r"'
    changes = [INSERT % SPELLED[LEAF], DELETE % SPELLED[LEAF]]
    renamed = [INSERT % named, DELETE % named]
    assert ended(names(), 0x10, *changes) == renamed
    assert [wal2json.action(each) for each in renamed] == [b"I", b"D"]


def test_a_name_that_is_gone_is_later_another_table_s() -> None:
    change = INSERT % SPELLED[GONE]
    found = names()
    assert ended(found, 0x2F, change) == [INSERT % b'"leaf":"s.gone","schema":"public","table":"r"']
    assert ended(found, 0x30, change) == []


def test_a_truncate_of_a_leaf_is_noted_and_none_of_the_root() -> None:
    """One of all leaves has the position of the root's."""
    for leaf, noted in ((1, {}), (2, {R: 0x11})):
        found = names()
        changes = [TRUNCATE % (leaf, SPELLED[LEAF]), TRUNCATE % (1, SPELLED[R])]
        assert ended(found, 0x10, *changes) == changes
        assert found.truncated == noted


def test_an_earlier_table_of_a_new_leaf_s_name_is_noted() -> None:
    change = INSERT % SPELLED[LEAF]

    def mixed(*transactions: tuple[int, int], born: int = 7, until: int = 0x90) -> int | None:
        """Return what is noted where each of these, id and position, changes the leaf."""
        names = LeafNames({R: PARTED}, SPELLED, {LEAF: (born, until)})
        for xid, commit_lsn in transactions:
            read(names, begin(commit_lsn).replace(b'"xid":7', b'"xid":%d' % xid), change)
        return names.mixed.get(R)

    assert mixed((6, 0x10), (7, 0x20)) == 0x21, "the one that made the leaf comes after a change"
    assert mixed((7, 0x10), (6, 0x20), (9, 0x30)) is None
    # After a savepoint it has another id.
    assert mixed((9, 0x10), (6, 0x20), (9, 0x30)) == 0x21
    assert mixed((6, 0x10), (9, 0x20)) is None
    assert mixed((9, 0x10), (6, 0x90)) is None, "it was made before"
    assert mixed((5, 0x10), (0xFFFFFFF0, 0x20), born=3) == 0x21


def test_a_change_that_the_plugin_withholds_is_the_root_s() -> None:
    warning = 'no tuple identifier for DELETE in table "s"."le,"af"'
    change = wal2json.withheld(warning, names().root_of)
    assert change is not None
    assert wal2json.names(change) == (b'"public"', b'"r"')


MOVED = b'"schema":"public","table":"r"'
OTHER = b'"schema":"public","table":"other"'
BEGIN, COMMIT = Begin(0x10, 0x20, 7, 0), Commit(0x20)


def delete(leaf: bytes, key: bytes, table: bytes = MOVED) -> bytes:
    return (
        b'{"action":"D","xid":7,"leaf":"s.%b",%b,"identity":[{"name":"id","value":%b},'
        b'{"name":"d","value":"caf\xe9,\\"identity\\":["}]}' % (leaf, table, key)
    )


def insert(leaf: bytes, key: bytes, table: bytes = MOVED) -> bytes:
    return b'{"action":"I","xid":7,"leaf":"s.%b",%b,"columns":[{"name":"id","value":%b}]}' % (
        *(leaf, table),
        key,
    )


UPDATE = (
    b'{"action":"U","xid":7,"leaf":"s.b",%b,"columns":[{"name":"id","value":1}],'
    b'"identity":[{"name":"id","value":1},{"name":"d","value":"caf\xe9,\\"identity\\":["}]}' % MOVED
)
TRUNCATED = b'{"action":"T","xid":7,%b}' % MOVED


def join(*messages: Message) -> list[Message]:
    """Join messages that come one by one."""
    moved = MovedRows({MOVED: ("id",)})
    return [each for message in messages for each in moved.join([message])]


def test_a_row_that_moves_is_an_update_whatever_comes_between_from_elsewhere() -> None:
    found = join(BEGIN, delete(b"a", b"1"), insert(b"b", b"1"), COMMIT)
    assert found == [BEGIN, UPDATE, COMMIT]
    assert wal2json.action(UPDATE.replace(b"\xe9", b"e")) == b"U"
    others = delete(b"x", b"1", OTHER), insert(b"y", b"1", OTHER)
    between: list[Message] = [Keepalive(1, False), *others]
    found = join(BEGIN, delete(b"a", b"1"), *between, insert(b"b", b"1"), COMMIT)
    assert found == [BEGIN, *between, UPDATE, COMMIT]


ALONE: dict[str, list[Message]] = {
    "another key": [delete(b"a", b"1"), insert(b"b", b"2")],
    "one leaf": [delete(b"a", b"1"), insert(b"a", b"1")],
    "truncated": [delete(b"a", b"1"), TRUNCATED, insert(b"b", b"1")],
    "another delete": [delete(b"a", b"1"), delete(b"a", b"2"), insert(b"b", b"1")],
    "no insert": [delete(b"a", b"1"), delete(b"b", b"1")],
    "not ignored": [delete(b"a", b"1", OTHER), insert(b"b", b"1", OTHER)],
}


def test_anything_else_stays_as_it_is() -> None:
    for why, changes in ALONE.items():
        assert join(BEGIN, *changes, COMMIT) == [BEGIN, *changes, COMMIT], why


def test_without_a_key_it_is_noted_that_nobody_knows() -> None:
    for key in (), ("id", "missing"):
        moved = MovedRows({MOVED: key})
        changes: list[Message] = [BEGIN, delete(b"a", b"1"), insert(b"b", b"1"), COMMIT]
        assert moved.join(changes) == changes
        assert moved.undecided == {MOVED: 0x11}
