"""Payloads that no plugin sends, put into the change log by hand: kept, listed, stopping nothing.

Text that is not valid in the database's encoding cannot be there: the server checks what COPY
brings, and the plugin sends what the source's own check let in.
"""

from __future__ import annotations

import json

import psycopg2
import pytest

from tests.input.bench import SLOT, Bench

NOT_JSON = "the payload is not valid JSON"
UNKNOWN = "the action is not known"
NO_TABLE = "the change names no table"

PAYLOADS = {
    "": NOT_JSON,
    "not json": NOT_JSON,
    '{"action":"I"': NOT_JSON,
    '{"action":"I","note":"\\u0000"}': NOT_JSON,
    '{"action":"I","note":"\\ud800"}': NOT_JSON,
    '{"number":1e999999}': NOT_JSON,
    "[" * 20_000 + "]" * 20_000: NOT_JSON,
    "null": UNKNOWN,
    "7": UNKNOWN,
    '"I"': UNKNOWN,
    "[]": UNKNOWN,
    '{"action":{"I":1},"schema":"public","table":"notifications"}': UNKNOWN,
    '{"action":"i","schema":"public","table":"notifications"}': UNKNOWN,
    '{"action":"I"}': NO_TABLE,
    '{"action":"T","table":"notifications"}': NO_TABLE,
    '{"action":"I","schema":"public","table":"notifications"}': "the row has no column service_id, "
    "template_id, notification_type, notification_status",
    '{"action":"I","schema":"public","table":"notifications","columns":[null,1,"x",[],{}]}': "the "
    "row has no column service_id, template_id, notification_type, notification_status",
    '{"action":"D","schema":"public","table":"notifications","identity":7}': "the replica identity "
    "does not carry the old service_id, template_id, notification_type, notification_status",
}


def put(bench: Bench, payloads: list[str]) -> None:
    """Stage the payloads as one transaction behind everything that is there."""
    bench.execute(
        "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, payload) "
        "select %s, position_lsn, ordinal, 1, now(), payload from cdc.slot_position, "
        "unnest(%s) with ordinality as staged (payload, ordinal)",
        SLOT,
        payloads,
    )
    bench.execute("update cdc.slot_position set position_lsn = position_lsn + 8")


def test_any_payload_is_kept_with_a_reason(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(2)
    bench.stage()
    put(bench, list(PAYLOADS))
    bench.build()
    listed = "select payload, reason from analytics.rejected_changes order by ordinal"
    assert bench.execute(listed) == list(PAYLOADS.items())
    assert bench.fact() == bench.recount()


@pytest.mark.parametrize("value", [7, True, {"a": 1}, ["x"], "{00000000}", "0" * 32, ""])
def test_an_id_of_another_kind_is_rejected(bench: Bench, value: object) -> None:
    columns = {"service_id": value, "template_id": "0" * 8 + "-0000" * 3 + "-" + "0" * 12}
    columns |= {"notification_type": "sms", "notification_status": "sent"}
    image = [{"name": name, "value": each} for name, each in columns.items()]
    bench.set_up()
    bench.database.insert(1)
    bench.stage()
    change = {"action": "I", "schema": "public", "table": "notifications", "columns": image}
    put(bench, [json.dumps(change)])
    bench.build()
    assert bench.rejected() == [("I", "the value of service_id is not a uuid")]


def test_text_that_is_not_valid_in_the_encoding_cannot_be_staged(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(1)
    bench.stage()
    with (
        pytest.raises(psycopg2.errors.CharacterNotInRepertoire),
        bench.database.connection.cursor() as cursor,
    ):
        cursor.execute(b"update cdc.change_log set payload = '\xff'")
