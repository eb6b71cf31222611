-- The verdict on a model, in the order in which a pipeline meets them. A step a paragraph: what happens, then the verdict
-- and the remedy that must come of it. It prints the steps that fail, so nothing where all is right.
begin;
create temporary table got (what text, got text, wanted text);
create temporary view verdict as
select said.state || ': ' || coalesce(said.remedy, 'nothing') as words from cdc.explain_models('s') as said;

insert into cdc.slot_position (slot_name, system_identifier, source_database, start_lsn, position_lsn)
values ('s', '1', 'app', '0/10', '0/90');
insert into cdc.logged_table (slot_name, table_schema, table_name, held_since)
values ('s', 'public', 'orders', '{"*": "0/10"}');
insert into got select 'nothing to follow', cdc.models_version('s')::text, '0';
insert into cdc.installed_model
    (slot_name, relation, model_name, relation_schema, relation_name, declaration, needed, routine, needs, table_nos)
values (
    's', 'app.ft', 'ft', 'app', 'ft', '{"query": ""}', '{"public.orders": ["a"]}', 'f()', '[]', '{1}'
);
create temporary table known as select cdc.models_version('s') as version;
insert into got select 'installed', words, 'waits: `spark-submit spark/seed.py --model ft`' from verdict;

insert into cdc.baseline (slot_name, model_name, baseline_id, declaration, snapshot_lsn, system_identifier)
select slot_name, model_name, gen_random_uuid(), declaration, '0/20', '1' from cdc.registered_model;
insert into got select 'seeded', words, 'waits: `loader run --build` or `dbt build`' from verdict;
insert into cdc.model_watermark (relation, slot_name, applied_lsn, declaration, baseline_id)
select 'app.ft', slot_name, '0/90', declaration, baseline_id from cdc.baseline;
insert into got select 'built', words, 'follows: nothing' from verdict;

-- The server changes under it.
update cdc.model_watermark set major_version = 12;
insert into got select 'another major version', words, 'follows: `spark-submit spark/audit.py --model ft`' from verdict;
insert into got
select
    'what changed is said', reason || is_finding,
    'the server''s major version changed since it was counted or audited, and with that perhaps what its query givestrue'
from cdc.explain_models('s');
update cdc.model_watermark set major_version = cdc.major_version();
insert into got select 'the same server', words, 'follows: nothing' from verdict;

update cdc.installed_model set error = 'no', remedy = 'do it', is_locked = true;
insert into got select 'an error', words, 'failed: do it' from verdict;
insert into got
select 'a lock says so', reason, 'it could not be locked: no' from cdc.explain_models('s');
update cdc.installed_model set error = null, is_locked = false;

create table cdc.change_log_all partition of cdc.change_log default;
insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, payload)
values ('s', '0/30', 1, 1, '2026-01-01 00:00+00', ''), ('s', '0/95', 1, 2, '2026-01-02 00:00+00', '');
insert into got
select 'what is applied is exact until the next change', cdc.exact_as_of('s', 'ft')::text, ('2026-01-02 00:00+00'::timestamptz)::text;
insert into cdc.model_watermark (slot_name, relation, applied_lsn, declaration, major_version)
select slot_name, 'h.forgotten', '0/20', declaration, major_version from cdc.model_watermark;
insert into got
select 'a model that setup has forgotten makes nothing older', cdc.exact_as_of('s')::text, ('2026-01-02 00:00+00'::timestamptz)::text;
delete from cdc.model_watermark where relation = 'h.forgotten';

insert into cdc.logged_table (slot_name, table_schema, table_name, held_since)
values
('s', 'h', 'a', '{"x": "0/10", "y": "0/20", "gap": "0/99", "*": "0/30"}'),
('s', 'h', 'b', '{"x": "0/40"}'),
('s', 'h', 'c', '{}');
insert into got
select 'held since ' || needed, cdc.held_since('s', needed::jsonb)::text, since
from (
    values
    ('{"h.a": ["x"]}', '0/10'),
    ('{"h.a": ["x", "y"]}', '0/20'),
    ('{"h.a": ["x", "unknown"]}', '0/30'),
    ('{"h.a": ["gap"]}', '0/99'),
    ('{"h.a": []}', '0/10'),
    ('{"h.a": ["x"], "h.b": ["x"]}', '0/40'),
    ('{"h.a": ["x"], "h.b": ["y"]}', null),
    ('{"h.a": ["x"], "h.c": []}', null),
    ('{"h.a": ["x"], "h.unknown": []}', null),
    ('{"another.a": ["x"]}', null)
) as cases (needed, since);
insert into got select 'another slot holds nothing', cdc.held_since('t', '{"h.a": ["x"]}')::text, null;
update cdc.logged_table set held_since = '{"a": "0/95"}' where table_name = 'orders';
insert into got
select
    'a baseline has limits', string_agg(kind || ' ' || from_lsn, ', ' order by kind),
    'baseline 0/20, log 0/10, table 0/95'
from cdc.baseline_limits('s', '{ft}');
update cdc.model_watermark set baseline_id = null;
update cdc.logged_table set held_since = '{}' where table_name = 'orders';
insert into got
select 'what stands before a gap is exact until the newest change before', cdc.exact_as_of('s', 'ft')::text, ('2026-01-01 00:00+00'::timestamptz)::text
union all
select 'also of a slot', cdc.exact_as_of('s')::text, ('2026-01-01 00:00+00'::timestamptz)::text;
insert into got
select 'not held yet', words, 'waits: see that `loader run` runs, then `spark-submit spark/seed.py --model ft`' from verdict;
update cdc.logged_table set held_since = '{"*": "0/10"}' where table_name = 'orders';
update cdc.model_watermark set baseline_id = (select baseline_id from cdc.baseline);

-- A copy in a developer's schema moves nothing, whatever its query is.
insert into cdc.installed_model
    (slot_name, relation, model_name, relation_schema, relation_name, declaration, needed, routine, needs, table_nos)
select slot_name, 'dev.ft', model_name, 'dev', 'ft', '{"query": "another"}', needed, routine, needs, table_nos
from cdc.installed_model;
insert into got
select 'a copy of another query', reason, 'it is a copy of app.ft, which has another query, so nothing is followed for it'
from cdc.explain_models('s') where relation = 'dev.ft'
union all
select 'which has a remedy', remedy, '`dbt build` of one query in both schemas, or another name for one of the two models'
from cdc.explain_models('s') where relation = 'dev.ft'
union all
select 'nor what is followed', cdc.models_version('s')::text, version::text from known;
insert into got
select 'the first', state, 'follows' from cdc.explain_models('s') where relation = 'app.ft';
update cdc.installed_model
set declaration = original.declaration
from cdc.installed_model as original
where installed_model.relation = 'dev.ft' and original.relation = 'app.ft';
insert into got
select 'a copy of its query', state || ': ' || remedy, 'waits: `loader run --build` or `dbt build`'
from cdc.explain_models('s') where relation = 'dev.ft';
insert into got select 'is a copy', cdc.is_copy('s', '{dev.ft}')::text, 'true' union all select 'no copy', cdc.is_copy('s', '{app.ft}')::text, 'false';
insert into got select 'what has been forgotten', cdc.forget_model('app.ft')::text, '{app.ft}';
insert into got
select 'leaves its place to the copy', model_name || ' ' || relation_schema, 'ft dev' from cdc.registered_model
union all
select 'with the baseline', count(*)::text, '1' from cdc.baseline;
insert into got select 'another is followed', (cdc.models_version('s') <> version)::text, 'true' from known;
update cdc.installed_model set relation = 'app.ft', relation_schema = 'app';
insert into cdc.model_watermark (relation, slot_name, applied_lsn, declaration, baseline_id, major_version)
select 'app.ft', slot_name, '0/90', declaration, baseline_id, cdc.major_version() from cdc.baseline;

update cdc.installed_model as own
set declaration = '{"query": "another"}', former = jsonb_build_object('declaration', own.declaration, 'routine', 'f()'), former_table_nos = '{1}';
insert into got select 'another query', words, 'follows: `spark-submit spark/seed.py --model ft`' from verdict;
update cdc.installed_model set former = null;
update cdc.baseline set declaration = (select declaration from cdc.registered_model), baseline_id = gen_random_uuid();
insert into got select 'seeded again', words, 'waits: `loader run --build` or `dbt build`' from verdict;
update cdc.installed_model set engine = 'spark';
insert into got select 'by Spark', words, 'waits: `spark-submit spark/apply.py`' from verdict;

-- A model over it waits with it.
insert into cdc.dependent_model (relation, model_name, project, declaration, routine, indexes)
values ('app.up', 'up', 'p', '{"inputs": []}', 'g()', '[]');
insert into cdc.dependent_input (relation, input_relation) values ('app.up', 'app.ft');
insert into got
select 'a model over it', concat_ws(', ', state, is_finding, remedy), 'waits, f, `spark-submit spark/apply.py`'
from cdc.plan_dependents('s');
update cdc.model_watermark
set declaration = registered_model.declaration, baseline_id = baseline.baseline_id
from cdc.registered_model, cdc.baseline;
insert into got select 'who waits for it', cdc.wait_for('s', '0/90', '0', '{up}')::text, 'true';
update cdc.model_watermark set applied_lsn = '0/20';
insert into got select 'waits for what it reads', cdc.wait_for('s', '0/90', '0', '{up}')::text, 'false';
update cdc.model_watermark set applied_lsn = '0/90';
insert into cdc.to_fill (relation, reason) values ('app.up', 'it is new');
insert into got
select 'one to be filled', concat_ws(', ', state, step, reason), 'waits, fill, it is to be filled from its inputs: it is new'
from cdc.plan_dependents('s');
update cdc.dependent_model set error = 'no', remedy = 'do it';
insert into got
select 'one that failed', concat_ws(', ', state, is_finding, reason, remedy), 'failed, t, no, do it' from cdc.plan_dependents('s');
update cdc.dependent_model set error = null, remedy = null;

update cdc.dependent_model
set declaration = '{"inputs": [{"model": "app.ft", "schema": "app", "name": "ft", "columns": [{"name": "a", "type": "integer"}]}]}';
insert into got
select 'its input has lost a column', concat_ws(', ', state, is_finding, reason, remedy),
    'waits, t, app.ft, which it reads, has other columns or another key than it was compiled for, `dbt build`; if it stays so, `dbt build --full-refresh --select ft`'
from cdc.plan_dependents('s');
update cdc.model_watermark set declaration = '{"query": "former"}';
insert into got
select 'which comes with its baseline', concat_ws(', ', state, is_finding, reason, remedy),
    'waits, f, app.ft, which it reads, waits: its rows were counted by another declaration, `spark-submit spark/apply.py`'
from cdc.plan_dependents('s');
update cdc.installed_model set former = '{"declaration": {"query": "former"}, "routine": "f()"}', former_table_nos = '{1}';
insert into got
select 'or a seed', concat_ws(', ', state, is_finding, reason, remedy),
    'waits, f, app.ft, which it reads, follows: its query has changed: until a seed has counted it, the former query is '
    'applied, `spark-submit spark/seed.py --model ft`'
from cdc.plan_dependents('s');
insert into got
select 'a query that changes twice', cdc.former_query(installed, '{"query": "third"}') ->> 'routine', 'f()'
from cdc.installed_model as installed;

-- Another slot's rows are in it, and nothing is registered there for the new declaration.
insert into cdc.model_watermark (relation, slot_name, applied_lsn, declaration) values ('app.ft', 't', '0/10', '{}');
insert into got
values
('a slot that feeds it too', cdc.other_slot('s', 'app.ft', 'ft'), 't'),
('nothing is told twice', cdc.join_steps('{setup,seed,build}', ' --model a', false), '`loader setup`, then `spark-submit spark/seed.py --model a`, then `dbt build`'),
('a seed that counts', cdc.join_steps('{seed,build}', ' --model a', true), 'let the seed end, then `dbt build`'),
('nothing but the seed', cdc.join_steps('{seed}', ' --model a', true), 'nothing is needed: it goes on when the seed has ended'),
('who builds', cdc.name_builder('spark'), '`spark-submit spark/apply.py`'),
('who builds here', cdc.name_builder('database'), '`loader run --build` or `dbt build`'),
(
    'a move is SQL and then the seed', right(cdc.explain_move('t', 's', 'app.ft', 'ft'), 47),
    '-- then `spark-submit spark/seed.py --model ft`'
);

-- PostgreSQL would compile these queries, for seconds, in a session that has not switched that off.
set jit = on;
do $$
declare
    plan json;
begin
    execute 'explain (format json) select * from cdc.model_state' into plan;
    insert into got values ('the view is not compiled', plan -> 0 ->> 'JIT', null);
end
$$;
insert into got
select 'nor what it asks', string_agg(proname, ', '), null from pg_proc
where
    proname in ('explain_models', 'plan_models', 'plan_dependents', 'exact_as_of', 'wait_for')
    and 'jit=off' <> all(proconfig);

select * from got as failed
where got is distinct from wanted;
rollback;
