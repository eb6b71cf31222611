"""What a session has set changes no number, and stops nothing: each setting that any user may change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster, connect

TABLES = """
create schema lab;
create table lab.value (
    id int primary key, cash money, x xml, span interval, ratio double precision, raw bytea,
    tags text[], at timestamptz, day date, name text, doc jsonb
);
alter table lab.value replica identity full;
"""
QUERIES = {
    "rows": "select id, cash::text as cash, x, span::text as span, ratio::text as ratio, raw, tags, at, doc from {value}",
    "fact": "select cash::text as cash, span::text as span, ratio::text as ratio, encode(raw, 'hex') as raw,"
    " tags::text as tags, at::date as day, '{a,NULL}'::text[] = tags as same, lower(name) as name,"
    " x::text as x, at < '2026-03-29 03:00' as early, span > '1 day 2 hours' as long, count(*) as n"
    " from {value} where name <> 'a\\b' group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
    "roll_up": "select name, max(span) as span, count(distinct ratio) as n, max(day) as day from {fact} group by 1",
}
ZONE = {"timezone": "Europe/Berlin"}
CHANGE = """
insert into lab.value values (
    {0}, {0}.5, '<a/>text<b/>', '1 day 02:03:04', 0.1 + {0}, '\\x00ff', '{{a,NULL}}', '2026-03-29 00:30+00', '2026-02-03', 'Now', '{{"a": 1.10}}'
), (-{0}, null, 'x', '-1 mon 1 day', 1e300, '', '{{}}', null, null, 'b"', null);
update lab.value set ratio = ratio / 3, name = 'c' where id = {0} - 1;
delete from lab.value where id = 1 - {0};
"""
OWN = {
    **dict.fromkeys(
        [
            "statement_timeout",
            "lock_timeout",
            "idle_session_timeout",
            "exit_on_error",
            "transaction_timeout",
        ],
        "ends the session or what takes long",
    ),
    **dict.fromkeys(
        ["default_transaction_read_only", "default_transaction_isolation"], "cdc.apply refuses it"
    ),
    **dict.fromkeys(
        ["transaction_read_only", "transaction_isolation", "transaction_deferrable"],
        "of a transaction",
    ),
    **dict.fromkeys(
        ["role", "session_authorization", "application_name", "local_preload_libraries"],
        "of a login",
    ),
    **dict.fromkeys(
        ["default_tablespace", "temp_tablespaces", "default_table_access_method"],
        "where it is kept",
    ),
    "restrict_nonsystem_relation_kind": "closes every view",
    "debug_print_parse": "fills the server's log",
    "debug_print_rewritten": "the same",
    "debug_print_plan": "the same",
}
TEXTS = {
    "DateStyle": "SQL, DMY",
    "createrole_self_grant": "set, inherit",
    "TimeZone": "Asia/Kathmandu",
    "timezone_abbreviations": "India",
    "search_path": "lab, public",
    "client_encoding": "LATIN1",
    "default_text_search_config": "pg_catalog.german",
    "lc_monetary": "C.utf8",
    "lc_numeric": "C.utf8",
    "lc_time": "C.utf8",
    "plpgsql.extra_errors": "all",
    "plpgsql.extra_warnings": "all",
}
ASKED = """
select
    name,
    case vartype
        when 'bool' then case setting when 'on' then 'off' else 'on' end
        when 'enum' then (select value from unnest(enumvals) as value where value <> setting order by value limit 1)
        when 'string' then null
        else case setting when min_val then max_val else min_val end
    end
from pg_settings
where context = 'user'
order by md5(name)
"""
COMPILED = """
select cdc.compile_query(reading ->> 'text', reading -> 'sources', reading -> 'options')
from cdc.registered_model order by model_name
"""


@pytest.fixture(scope="module")
def system(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuerySystem]:
    with empty_database(cluster) as made:
        system = QuerySystem(made, tmp_path_factory.mktemp("settings"))
        system.source.execute(TABLES)
        system.keep({name: (query, ZONE) for name, query in QUERIES.items()})
        system.target.take_baseline()
        yield system


@pytest.mark.parametrize("part", range(6))
def test_no_setting_of_a_session_changes_what_a_model_has(system: QuerySystem, part: int) -> None:
    target = system.target
    known = [
        (name, value or TEXTS.get(name)) for name, value in target.execute(ASKED) if name not in OWN
    ]
    assert [name for name, value in known if value is None] == []
    system.source.execute(CHANGE.format(part + 10))
    system.must("run", "--once")
    with closing(connect(target.cluster.dsn(target.name))) as session:
        for name, value in known[part::6]:
            session.ask("select set_config(%s, %s, false)", (name, value))
        session.ask("select from cdc.apply(%s)", (system.slot,))
        compiled = session.ask(COMPILED)
    states = target.execute("select model_name, state, reason from cdc.model_state order by 1")
    assert states == [(name, "follows", None) for name in sorted(QUERIES)]
    assert system.differing() == {}, known[part::6]
    assert compiled == target.execute(COMPILED), known[part::6]
