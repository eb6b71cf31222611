"""Payloads that no plugin sends, put into the change log by hand: kept, listed, stopping nothing.

Text that is not valid in the database's encoding cannot be there: the server checks what COPY
brings, and the plugin sends what the source's own check let in.
"""

from __future__ import annotations

import json

from testkit.pipeline import Pipeline

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
    '{"action":"I","schema":"public","table":"notifications"}': "the change has no row",
    '{"action":"I","schema":"public","table":"notifications","columns":[null,1,"x",[],{}]}': "the "
    "row has no column notification_status, notification_type, service_id, template_id",
    '{"action":"D","schema":"public","table":"notifications","identity":7}': "the replica identity "
    "carries no old row",
}


def put(pipeline: Pipeline, payloads: list[str]) -> None:
    """Stage the payloads as one transaction behind everything that is there."""
    pipeline.source.execute(
        "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, payload) "
        "select %s, position_lsn, ordinal, 1, now(), payload from cdc.slot_position, "
        "unnest(%s) with ordinality as staged (payload, ordinal)",
        pipeline.slot,
        payloads,
    )
    pipeline.source.execute("update cdc.slot_position set position_lsn = position_lsn + 8")


NO_UUIDS = [7, True, {"a": 1}, ["x"], "{00000000}", ""]


def inserted(service_id: object) -> str:
    """An insert of a row with this service."""
    columns = {"service_id": service_id, "template_id": "0" * 8 + "-0000" * 3 + "-" + "0" * 12}
    columns |= {"notification_type": "sms", "notification_status": "sent"}
    image = [{"name": name, "value": each} for name, each in columns.items()]
    change = {"action": "I", "schema": "public", "table": "notifications", "columns": image}
    return json.dumps(change)


def test_any_payload_is_kept_with_a_reason(pipeline: Pipeline) -> None:
    pipeline.set_up()
    pipeline.source.insert(2)
    pipeline.stage()
    put(pipeline, [inserted(value) for value in NO_UUIDS])
    pipeline.build()
    rejected = pipeline.rejected()
    assert len(rejected) == len(NO_UUIDS)
    assert all("invalid input syntax for type uuid" in reason for _, reason in rejected)
    put(pipeline, list(PAYLOADS))
    pipeline.build()
    listed = "select payload, reason from analytics.rejected_changes order by commit_lsn, ordinal"
    assert pipeline.source.execute(listed)[len(NO_UUIDS) :] == list(PAYLOADS.items())
    assert pipeline.model() == pipeline.recount()
