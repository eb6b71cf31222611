"""`--columns`: what is not kept is nowhere but in the source, whatever happens to a change."""

from __future__ import annotations

import pytest

from testkit.databases import Database
from testkit.pipeline import Pipeline
from tests.operations.secret_watch import files_with

MARKER = "zebra-4711"
"""Stands in every column that is not kept."""

KEEP = 'created_at,"Kept, ""one"" of"'
SHAPE = """
alter table notifications
    add column "Kept, ""one"" of" text, add column "Odd, ""one"" of" text,
    add column more jsonb, add column tags text[],
    alter column personalisation set storage external;
alter table notification_history add column note text;
"""

INSERT = """
insert into notifications ("to", normalised_to, reference, personalisation, "Kept, ""one"" of",
    "Odd, ""one"" of", more, tags, service_id, template_id, notification_type, notification_status)
select '{0}', '{0}', '{0}', repeat('{0}', 1000), 'kept', '{0}', jsonb_build_object('{0}', '{0}'),
    array['{0}', '{0}'], service_id, id, 'email', %s
from templates
"""

CHANGES = """
update notifications set notification_status = 'sent', "to" = '"{0}\\" ,"name":"id"';
update notifications set personalisation = '{0}';
insert into notification_history (id, created_at, reference, note, service_id, template_id,
    notification_type, notification_status)
select id, created_at, '{0}', '{0}', service_id, template_id, notification_type, notification_status
from notifications;
delete from notifications where id in (select id from notifications limit 1);
truncate notification_history;
"""


@pytest.fixture
def pipeline(apart: Pipeline) -> Pipeline:
    """A source with odd columns and a target of its own; nothing set up."""
    apart.source.execute(SHAPE)
    return apart


def reject(source: Database) -> None:
    """Changes that no model can count: they lack a column."""
    rename = "alter table notifications rename {} to {}"
    source.execute(rename.format("notification_status", "renamed"))
    source.execute(INSERT.format(MARKER).replace("notification_status", "renamed"), "sent")
    source.execute(rename.format("renamed", "notification_status"))


def places(database: Database, text: str) -> set[str]:
    """Every table of the database, of whatever schema, with the text in some row."""
    tables = database.execute(
        "select format('%I.%I', n.nspname, c.relname), n.nspname from pg_class as c "
        "inner join pg_namespace as n on n.oid = c.relnamespace "
        "where c.relkind in ('r', 'm') and not c.relispartition "
        "or c.relkind = 'p'"
    )
    assert "pg_catalog" in {schema for _, schema in tables}
    found = "select exists (select from {} as line where strpos(line::text, %s) > 0)"
    return {name for name, _ in tables if database.value(found.format(name), text)}


def test_what_is_not_kept_is_nowhere_but_in_the_source(pipeline: Pipeline) -> None:
    source, target = pipeline.source, pipeline.target
    pipeline.set_up()
    unknown = "LOADER_COLUMNS names recipient, which no followed table"
    pipeline.refused_with(2, unknown, "run", "--once", "--columns", "id,recipient,note")
    with pipeline.follow("--build", "--verbose", "--columns", KEEP) as running:
        source.execute(INSERT.format(MARKER), "created")
        source.execute(CHANGES.format(MARKER))
        pipeline.wait_for_staged(14)
    said = running.said()
    assert "built in" in said
    assert pipeline.differences() == []
    reject(source)
    assert pipeline.loader("run", "--once", "--verbose", LOADER_COLUMNS=KEEP).returncode == 0
    built = pipeline.call(
        "dbt", "--log-level", "debug", "build", "--exclude-resource-type", "unit_test"
    )
    assert "FAIL 3" in built.stdout

    assert target.value("select count(*) from cdc.change_log where action is null") == 0
    assert target.value("select count(*) from analytics.rejected_changes") == 3
    assert "public.notifications" in places(source, MARKER)
    assert places(target, MARKER) == set()
    assert MARKER not in said + built.stdout + built.stderr
    assert files_with(pipeline.home, MARKER) == set()
    assert files_with(pipeline.home / "target", "rejected_changes") != set(), "dbt has built"
    assert "cdc.change_log" in places(target, "kept")

    reject(source)
    pipeline.must("run", "--once", "--build")
    assert places(target, MARKER) == {"cdc.change_log", "analytics.rejected_changes"}
