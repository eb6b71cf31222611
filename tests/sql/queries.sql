-- What an installation asks of a compiled query and of a model's table. It prints the cases that fail, so nothing where all
-- is right.
begin;
create schema app;
set client_min_messages = warning;
create table app.ft (a text, n bigint not null, twice bigint generated always as (n * 2) stored);
alter table app.ft add unique nulls not distinct (a);
insert into app.ft values ('x', 1);

create temporary table compiled as
select '{"kind": "fact", "sources": [{"table": "app.t", "schema": "app", "keeps_deleted": true, "columns": [
    {"name": "a", "is_needed": true}, {"name": "b", "is_needed": false}]},
    {"table": "app.\"u", "schema": "app", "keeps_deleted": false, "columns": []}]}'::jsonb as query;

create temporary table got (what text, got text, wanted text);
insert into got
select 'what a query needs', cdc.needed_columns(query)::text, '{"app.t": ["a"], "app.\"u": []}' from compiled
union all
select
    'what a reader is asked for', cdc.list_needs(query)::text,
    '[["app.t", ["a"], true, "app", "t"], ["app.\"u", [null], false, "app", "\"u"]]'
from compiled
union all
select
    'changes of rows whose old rows are keys stay apart',
    cdc.list_needs(query || '{"kind": "rows", "has_old_rows": false}') #>> '{0,2}', 'each'
from compiled
union all
select
    'a source is found whether its name has quotation marks or not',
    (cdc.name_sources('select o.a from "db"."app"."T" as o, db.app.u', '[{"relation": "db.app.T", "table": "app.T", "name": "T"},
    {"relation": "\"db\".\"app\".\"u\"", "table": "app.u", "name": "u"}]')).named,
    'select o.a from pg_temp.waltally_source_1 as o, pg_temp.waltally_source_2 as u'
union all
select 'the reader of a slot', left(cdc.reader_name('one'), strpos(cdc.reader_name('one'), '(') - 1), '"cdc".read_one'
union all
select
    -- The server cuts a name after 63 bytes.
    'long slots have one each', count(distinct split_part(cdc.reader_name(repeat('s', 62) || number), '.', 2)::name)::text, '2'
from generate_series(1, 2) as number
union all
select
    'and so have long models',
    count(distinct cdc.routine_name('s', repeat('m', 44) || number, 'apply', '{}'))::text, '2'
from generate_series(1, 2) as number
union all
select 'a key that takes null for one value', cdc.has_unique_key('app.ft', '{a}')::text, 'true'
union all
select 'no key', cdc.has_unique_key('app.ft', '{n}')::text, 'false'
union all
select
    'expression columns', (select string_agg(name || ' ' || is_expression, ', ' order by name) from cdc.column_forms('app.ft')),
    'a false, n false, twice true';

-- What is registered of a model stays where its query means the same.
insert into cdc.slot_position (slot_name, system_identifier, source_database, position_lsn, start_lsn)
values ('s', '1', 'app', '0/20', '0/10');
create temporary table source as
select
    'select a, count(*) as n from "d"."app"."t" group by 1' as text,
    '[{"relation": "\"d\".\"app\".\"t\"", "name": "t", "table": "app.t", "schema": "app", "key": [], "columns": [
        {"name": "a", "type": "integer"}]}]'::jsonb as sources;
insert into cdc.installed_model
    (slot_name, relation, model_name, relation_schema, relation_name, declaration, needed, reading, routine, needs)
select 's', 'app.m', 'm', 'app', 'm', '"registered"', '{}', to_jsonb(source) || '{"options": {}}', 'f()', '[]' from source;
insert into got
select
    compiled.what, (cdc.compile_model('s', 'm', compiled.text, compiled.sources, '{}') = '"registered"')::text,
    compiled.wanted
from (
    select 'another column and text' as what, replace(text, ' as ', '  AS ') as text, jsonb_insert(
        sources, '{0,columns,0}', '{"name": "b", "type": "text"}'
    ) as sources, 'true' as wanted from source
    union all
    select 'another meaning', replace(text, '(*)', '(a)'), sources, 'false' from source
    union all
    select 'a column of another type', text, jsonb_set(sources, '{0,columns,0,type}', '"text"'), 'false' from source
) as compiled;
create role "table's owner";
create role "dbt's own";
grant usage on schema cdc, app to "dbt's own";
grant insert on got to "dbt's own";
alter table app.ft owner to "table's owner";
set local role "dbt's own";
do $$
declare
    remedy text;
begin
    perform cdc.keep_rejected_changes('app.ft');
exception
    when sqlstate 'WL003' then
        get stacked diagnostics remedy = pg_exception_hint;
        insert into got
        values ('a table of another role', remedy, 'alter table app.ft owner to "dbt''s own"; -- then dbt build');
end
$$;
reset role;
insert into got select 'is refused', count(*)::text, '1' from got where what = 'a table of another role';

select what, got, wanted from got where got is distinct from wanted;
rollback;
