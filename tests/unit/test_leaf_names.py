"""Changes of leaves get the name of their partitioned table."""

from __future__ import annotations

from loader.capture import wal2json
from loader.capture.stages.leaf_names import LeafNames, tables_of
from loader.capture.wal2json import Begin, Commit, Message
from loader.staging.logged_tables import Member, Root
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


def test_other_tables_stay_as_they_are() -> None:
    other = INSERT % b'"schema":"s","table":"other"'
    assert ended(names(), 0x10, other, b"no json") == [other, b"no json"]


def test_a_name_that_is_gone_is_later_another_table_s() -> None:
    change = INSERT % SPELLED[GONE]
    found = names()
    assert ended(found, 0x2F, change) == [INSERT % b'"leaf":"s.gone","schema":"public","table":"r"']
    assert ended(found, 0x30, change) == []


def test_a_truncate_of_all_leaves_is_the_root_s_alone() -> None:
    found = names()
    both = [TRUNCATE % (1, SPELLED[LEAF]), TRUNCATE % (1, SPELLED[R])]
    assert ended(found, 0x10, *both) == both
    assert found.truncated == {}


def test_a_truncate_of_a_leaf_is_noted_and_none_of_the_root() -> None:
    found = names()
    apart = [TRUNCATE % (1, SPELLED[R]), TRUNCATE % (2, SPELLED[LEAF])]
    assert ended(found, 0x10, *apart) == apart
    assert found.truncated == {R: 0x11}


def test_an_earlier_table_of_a_new_leaf_s_name_is_noted() -> None:
    found = LeafNames({R: ROOT}, SPELLED, {LEAF: 7})
    change = INSERT % SPELLED[LEAF]
    read(found, begin(0x10).replace(b'"xid":7', b'"xid":6'))
    read(found, change)
    read(found, begin(0x20))
    assert found.mixed == {R: 0x21}, "the transaction that made the leaf comes after a change"
    found = LeafNames({R: ROOT}, SPELLED, {LEAF: 7})
    ended(found, 0x10)
    ended(found, 0x20, change)
    assert found.mixed == {}


def test_a_change_that_the_plugin_withholds_is_the_root_s() -> None:
    warning = 'no tuple identifier for DELETE in table "s"."le,"af"'
    change = wal2json.withheld(warning, names().root_of)
    assert change is not None
    assert wal2json.names(change) == (b'"public"', b'"r"')


def test_the_slot_sends_roots_leaves_and_what_is_gone() -> None:
    assert tables_of({R: ROOT}) == (R, LEAF, GONE)
