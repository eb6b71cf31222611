"""Whatever the columns hold, the counts are those of the rows."""

from __future__ import annotations

from testkit.hostile import VALUES
from testkit.pipeline import Pipeline

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
        "begin;"
        "insert into notification_history (id, service_id, template_id, notification_type, "
        "notification_status, created_at) select id, service_id, template_id, notification_type, "
        "notification_status, created_at from notifications where template_version = 2;"
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
    pipeline.must_be_exact()
    pipeline.source.insert(6)
    for value in ("NaN", "Infinity", "-Infinity", "1e-30", "-0"):
        pipeline.source.execute(
            f"update notifications set cost = '{value}', price = '{value}', ratio = '{value}', "
            f"score = '{value}'"
        )
    pipeline.source.execute("update notifications set price = 'Infinity', cost = 1e308")
    pipeline.source.execute(
        "update notifications set price = repeat('9', 50000)::numeric / 7, "
        "score = 10::numeric ^ 2000"
    )
    churn(pipeline)
    pipeline.source.execute("update notifications set billable_units = 9, raw = '', words = '{}'")
    pipeline.must_be_exact()


def test_hostile_text_and_a_new_enum_value_are_groups_like_any_other(pipeline: Pipeline) -> None:
    pipeline.set_up()
    for text in VALUES:
        pipeline.source.insert(2, status=text)
    pipeline.source.execute(
        "delete from notifications where id in (select min(id::text)::uuid "
        "from notifications group by notification_status)"
    )
    pipeline.must_be_exact()
    assert len(pipeline.model()) == len(VALUES)
    pipeline.source.execute("alter type notification_type add value 'pigeon post'")
    pipeline.source.execute("update notifications set notification_type = 'pigeon post'")
    pipeline.must_be_exact()
