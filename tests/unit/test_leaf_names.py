"""Changes of leaves get the name of their partitioned table."""

from __future__ import annotations

from loader.capture import wal2json
from loader.capture.leaf_names import LeafNames, tables_of
from loader.capture.messages import Begin, Commit, Decode
from waltally.leaves import Member, Root
from waltally.tables import Table

R, LEAF, GONE = Table("public", "r"), Table("s", 'le,"af'), Table("s", "gone")
ROOT = Root(
    0x50,
    (Member(1, 0, "", "1", "1", "p", "p", R), Member(2, 1, "2", "2", "2", "r", "p", LEAF)),
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
    return LeafNames({R: ROOT}, SPELLED)


def begin(commit_lsn: int) -> bytes:
    at = b"0/%X" % commit_lsn
    return (
        b'{"action":"B","xid":7,"timestamp":"2026-01-01 00:00:00+00",'
        b'"lsn":"%b","nextlsn":"%b"}' % (at, at)
    )


def ended(read: Decode, commit_lsn: int, *payloads: bytes) -> list[bytes]:
    """Read a transaction; return its changes."""
    assert isinstance(read(begin(commit_lsn)), Begin)
    found = [read(payload) for payload in payloads]
    assert isinstance(read(begin(commit_lsn).replace(b'"B"', b'"C"')), Commit)
    return [each for each in found if isinstance(each, bytes)]


def test_a_change_gets_the_root_s_name_and_keeps_the_leaf_s() -> None:
    read = names().reading(wal2json.decode)
    named = b'"leaf":"s.le,\\"af","schema":"public","table":"r"'
    changes = [INSERT % SPELLED[LEAF], DELETE % SPELLED[LEAF]]
    found = ended(read, 0x10, *changes)
    assert found == [INSERT % named, DELETE % named]
    assert [wal2json.action(each) for each in found] == [b"I", b"D"]


def test_other_tables_stay_as_they_are() -> None:
    read = names().reading(wal2json.decode)
    other = INSERT % b'"schema":"s","table":"other"'
    assert ended(read, 0x10, other, b"no json") == [other, b"no json"]


def test_a_name_that_is_gone_is_later_another_table_s() -> None:
    read = names().reading(wal2json.decode)
    change = INSERT % SPELLED[GONE]
    assert ended(read, 0x2F, change) == [INSERT % b'"leaf":"s.gone","schema":"public","table":"r"']
    assert ended(read, 0x30, change) == []


def test_a_truncate_of_all_leaves_is_the_root_s_alone() -> None:
    found = names()
    read = found.reading(wal2json.decode)
    both = [TRUNCATE % (1, SPELLED[LEAF]), TRUNCATE % (1, SPELLED[R])]
    assert ended(read, 0x10, *both) == both
    assert found.truncated == {}


def test_a_truncate_of_a_leaf_is_noted_and_none_of_the_root() -> None:
    found = names()
    read = found.reading(wal2json.decode)
    apart = [TRUNCATE % (1, SPELLED[R]), TRUNCATE % (2, SPELLED[LEAF])]
    assert ended(read, 0x10, *apart) == apart
    assert found.truncated == {R: 0x11}


def test_an_earlier_table_of_a_new_leaf_s_name_is_noted() -> None:
    found = LeafNames({R: ROOT}, SPELLED, {LEAF: 7})
    read = found.reading(wal2json.decode)
    change = INSERT % SPELLED[LEAF]
    read(begin(0x10).replace(b'"xid":7', b'"xid":6'))
    read(change)
    read(begin(0x20))
    assert found.mixed == {R: 0x21}, "the transaction that made the leaf comes after a change"
    found = LeafNames({R: ROOT}, SPELLED, {LEAF: 7})
    read = found.reading(wal2json.decode)
    ended(read, 0x10)
    ended(read, 0x20, change)
    assert found.mixed == {}


def test_a_change_that_the_plugin_withholds_is_the_root_s() -> None:
    warning = 'no tuple identifier for DELETE in table "s"."le,"af"'
    change = names().withheld(warning)
    assert change is not None
    assert wal2json.names(change) == (b'"public"', b'"r"')


def test_the_slot_sends_roots_leaves_and_what_is_gone() -> None:
    assert tables_of({R: ROOT}) == (R, LEAF, GONE)
