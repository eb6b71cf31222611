"""Whatever columns and payloads hold, and whatever becomes of columns, the counts are the rows'."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from testkit.commands import wait_until
from testkit.databases import ARCHIVE, Database
from testkit.following import memory, peak_memory
from testkit.hostile import VALUES
from testkit.pipeline import Pipeline
from testkit.queries import QuerySystem
from testkit.servers import connect
from testkit.source import set_identity

ODD_COLUMNS = r"""
create type point_of as (x int, "y]}" text);
alter table notifications
    add document json default '{"name": "service_id", "value": "\u0000", "a": [1, {}]}',
    add document_b jsonb default '[{"name": "notification_status", "value": null}]',
    add words text[] default array['a"b', '},{', null, '\'],
    add grid int[][] default '{{1,2},{3,4}}',
    add raw bytea default '\x00ff22', add span tstzrange default '[now,)',
    add pair point_of default (1, '"}]'), add address inet default '::1', add money money,
    add doubled int generated always as (billable_units * 2) stored,
    add number bigint generated always as identity, add flags bit(3) default b'101',
    add xml xml default '<a b="c">&amp;</a>',
    add cost float8, add price numeric, add ratio float4;
create domain score as numeric; alter table notifications add score score
"""
"""Types whose texts JSON does not know, or could be taken for a part of the message."""


def churn(pipeline: Pipeline) -> None:
    """Insert, move, archive and delete rows whatever they hold."""
    pipeline.source.execute("update notifications set notification_status = 'sending'")
    pipeline.source.execute("update notifications set reference = 'unmoved'")
    pipeline.source.execute(
        f"begin; {ARCHIVE} where template_version = 2;"
        "delete from notifications where template_version = 2; commit"
    )
    pipeline.source.execute("delete from notifications where template_version = 3")


def test_values_of_any_kind_in_other_columns_change_no_count(pipeline: Pipeline) -> None:
    pipeline.source.execute(ODD_COLUMNS)
    pipeline.set_up()
    for version, text in enumerate(VALUES):
        pipeline.source.insert(2, text=text)
        pipeline.source.execute(
            "update notifications set template_version = %s, job_id = id", version
        )
    churn(pipeline)
    pipeline.source.execute(
        "update notifications set price = repeat('9', 50000)::numeric / 7, "
        "score = 10::numeric ^ 2000, cost = 'NaN', raw = '', words = '{}'"
    )
    pipeline.must_be_exact()


NOT_CARRIED = "the replica identity does not carry the old "


def test_keys_and_other_columns_come_go_and_are_renamed(pipeline: Pipeline) -> None:
    run = pipeline.source.execute
    pipeline.set_up()
    pipeline.source.insert(6)
    for ddl in (
        "add extra text default 'x'",
        'rename normalised_to to "service_id "',
        "drop job_id",
        "add job_id int",
        "alter billable_units type numeric",
        "drop extra",
    ):
        run(f"alter table notifications {ddl}")
        churn(pipeline)
        pipeline.source.insert(2)
    run("update notifications set id = gen_random_uuid()")
    key = "drop constraint notifications_pkey, add serial bigserial primary key"
    run(f"alter table notifications {key}")
    run("update notifications set serial = serial + 100, notification_status = 'sent'")
    run("delete from notifications where serial = 101")
    pipeline.must_be_exact()


def test_an_identity_narrowed_for_a_while_is_rejected_for_that_while(pipeline: Pipeline) -> None:
    run = pipeline.source.execute
    pipeline.set_up()
    pipeline.source.insert(4)
    run("update notifications set notification_status = 'sending'")
    run("alter table notifications replica identity default")
    run("alter table notification_history replica identity nothing")
    pipeline.source.insert(1, status="sent")
    one = "where id = (select id from notifications order by id limit 1)"
    run(f"update notifications set notification_status = 'delivered' {one}")
    run(f"delete from notifications {one}")
    run(f"{ARCHIVE} limit 3; delete from notification_history")
    for table in ("notifications", "notification_history"):
        run(f"alter table {table} replica identity full")
    run("update notifications set notification_status = 'pending'")
    pipeline.catch_up()
    # The deletes that the model ignores are among them: nobody could write down what they took.
    rejected = pipeline.rejected()
    assert [action for action, _ in rejected] == ["U", "D", "D", "D", "D"]
    lost = [NOT_CARRIED] * 2 + ["the replica identity carries no old row"] * 3
    assert all(said.startswith(words) for (_, said), words in zip(rejected, lost, strict=True))


LARGE = "(select string_agg(md5(random()::text), '') from generate_series(1, 3000))"


def test_an_unchanged_large_column_changes_no_count(pipeline: Pipeline) -> None:
    run = pipeline.source.execute
    set_identity(pipeline.dsns[0], "covering")
    pipeline.set_up()
    pipeline.source.insert(3)
    run(f"update notifications set personalisation = {LARGE}")
    run("update notifications set notification_status = 'sent'")
    run("update notifications set sent_at = now()")
    run("update notifications set id = gen_random_uuid()")
    pipeline.must_be_exact()
    absent = "select count(*) from cdc.change_log where payload not like '%\"personalisation\"%'"
    assert pipeline.source.value(absent) == 9


def test_large_values_pass_in_bounded_memory_and_one_takes_three_times_its_size(
    pipeline: Pipeline,
) -> None:
    """A loader that was killed for its memory would be killed at that row again."""
    pipeline.set_up()
    with pipeline.follow() as running:
        pipeline.source.insert(1)
        pipeline.wait_for_staged(1)
        idle = peak_memory(running)
        for _ in range(10):
            pipeline.source.insert(1, text="0123456789" * 1_000_000)
        pipeline.source.execute("update notifications set notification_status = 'delivered'")
        pipeline.wait_for_staged(22)
        # One value waits in the queue, one is in COPY's hands; one is being read, in three copies.
        assert peak_memory(running) - idle < 96 * 1024
        pipeline.source.insert(1, text="0123456789" * 6_000_000)
        pipeline.wait_for_staged(23)
        # libpq's buffer, its copy and ours; it is sent in parts.
        assert (peak_memory(running) - idle) * 1024 < 3.5 * 60_000_000
    pipeline.must_be_exact()


LETTERS = """
create schema lab;
create table lab.letter (
    id int primary key, status text, body text, "odd ""name"" \\" text, price numeric, note text
)
"""
UNREAD: dict[str, tuple[str, dict[str, str]]] = {
    "counted": (
        'select status, "odd ""name"" \\" as odd, count(*) as n, sum(price) as price'
        " from {letter} group by 1, 2",
        {},
    ),
    "listed": ("select id, status, note from {letter}", {}),
}
READ: dict[str, tuple[str, dict[str, str]]] = {
    "sized": ("select status, sum(length(body)) as n from {letter} group by 1", {}),
    "copied": ("select id, status, body from {letter}", {}),
}


def applied_in(system: QuerySystem) -> int:
    """Apply what is staged, and return how many bytes of memory that took its session."""
    cluster = system.target.cluster
    with closing(connect(cluster.dsn(system.target.name))) as session, session.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        [(pid,)] = cursor.fetchall()
        cursor.execute("select from cdc.apply(%s)", (system.slot,))
        before = memory(pid, "VmRSS")
        system.must("run", "--once")
        cursor.execute("select state, reason from cdc.apply(%s)", (system.slot,))
        assert {state for state, _ in cursor.fetchall()} == {"follows"}
        return (memory(pid) - before) * 1024


@pytest.mark.parametrize(("models", "share"), [(UNREAD, 3), (READ, 16)])
@pytest.mark.parametrize("identity", ["default", "full"])
def test_one_large_value_costs_an_apply_little(
    database: Database,
    tmp_path: Path,
    models: dict[str, tuple[str, dict[str, str]]],
    share: int,
    identity: str,
) -> None:
    """A model that needs none of it must not even notice."""
    run = database.execute
    run(f"{LETTERS}; alter table lab.letter replica identity {identity}")
    if identity == "default":
        models = {name: model for name, model in models.items() if "group by" not in model[0]}
    system = QuerySystem(database, tmp_path)
    system.keep(models)
    database.take_baseline()
    system.catch_up()
    body = "repeat(E'ab\"é\\n', 2000000)"
    for statement, images in (
        (f"insert into lab.letter values (1, 'new', {body}, 'x', 1.5, 'n')", 1),
        ("update lab.letter set status = 'sent', note = null", 2),
        ("update lab.letter set body = body || 'x', price = 2.5", 2),
        ("update lab.letter set id = 2", 2),
        ("delete from lab.letter", 1),
    ):
        run(statement)
        # In the message a value takes a third more; what else an apply needs is some 40 MB.
        assert applied_in(system) < share * 16_000_000 * images + 40_000_000, statement
        assert system.differing() == {}


def test_a_model_for_which_the_disk_is_full_goes_on_by_itself(
    database: Database, tmp_path: Path
) -> None:
    database.execute(LETTERS)
    system = QuerySystem(database, tmp_path)
    system.keep({"copied": READ["copied"]})
    database.take_baseline()
    system.catch_up()
    database.execute("insert into lab.letter values (1, 'new', repeat('x', 12000000))")
    system.must("run", "--once")
    limit = f"alter database {database.name} set temp_file_limit = 0"
    state = "select state, remedy from cdc.apply(%s) where model_name = %s"
    database.execute(limit)
    with (
        closing(connect(database.cluster.dsn(database.name))) as session,
        session,
        session.cursor() as cursor,
    ):
        cursor.execute(state, (system.slot, "copied"))
        [(said, remedy)] = cursor.fetchall()
    assert said == "failed" and "then it goes on by itself" in remedy, remedy
    database.execute(limit.replace("set temp_file_limit = 0", "reset temp_file_limit"))
    wait_until(
        lambda: database.execute(state, system.slot, "copied") == [("follows", None)], "it goes on"
    )
    assert system.differing() == {}


@pytest.mark.slow
def test_the_row_is_named_and_a_new_slot_passes_it(pipeline: Pipeline) -> None:
    pipeline.set_up()
    pipeline.source.insert(2)
    pipeline.must("run", "--once")
    pipeline.source.execute(
        "begin; update notifications set notification_status = 'sent';"
        # Each quote is two characters in JSON.
        "update notifications set personalisation = repeat('\"', 550000000) "
        "where id = (select id from notifications order by id limit 1); commit"
    )
    pipeline.source.insert(1)
    said = pipeline.refused_with(36, "`loader setup --renew`", "run", "--once")
    change = r"change 3 of transaction \d+, which commits at [0-9A-F]+/[0-9A-F]+, "
    assert re.search(rf'{change}after a change of "public"."notifications"', said), said
    assert pipeline.staged() == 2
    pipeline.must("setup", "--renew")
    pipeline.source.insert(4)
    pipeline.must("run", "--once")
    kept = (
        "select count(*) from cdc.change_log inner join cdc.slot_position using (slot_name)"
        " where commit_lsn >= start_lsn"
    )
    assert pipeline.target.value(kept) == 4


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
    pipeline.source.execute(
        "update cdc.slot_position set position_lsn = position_lsn + 8,"
        " catalog_lsn = 'FFFFFFFF/FFFFFFFF'"
    )


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
