-- The steps of cdc.apply, on a model whose routine writes down what it is told. A step a paragraph. It prints the cases
-- that fail, so nothing where all is right.
begin;
set client_min_messages = warning;
create schema app;
create table app.told (place serial, said text);
create function app.apply(
    text, text, cdc.change[], integer[], integer[], text[], anyarray,
    out rejected_lsn pg_lsn, out is_reset boolean, out lost_lsn pg_lsn, out before anyarray, out after anyarray
)
language plpgsql security definer as $$
begin
    insert into app.told (said)
    values (concat_ws(' ', $1, (select sum(change.change_count) from unnest($3) as change), $6::text));
end
$$;
create function cdc.read_s(text, pg_lsn, pg_lsn, pg_lsn, bigint, pg_lsn, bigint, boolean) returns cdc.change[]
language sql security definer as $$
    select array_agg((1, action, commit_lsn, ordinal, false, null, '{}', '{}', 1, commit_lsn, null)::cdc.change)
    from cdc.change_log
    where slot_name = $1 and (commit_lsn, ordinal) >= ($4, $5) and (commit_lsn, ordinal) < ($6, $7)
$$;
-- What the routine was told since the last question.
create function app.said() returns text language sql as $$
    with gone as (delete from app.told returning place, said)

    select string_agg(said, ', ' order by place) from gone
$$;
-- How a statement is refused: SQLSTATE and message.
create function app.refusal(asked text) returns text language plpgsql as $$
begin
    execute asked;
    return 'it did not refuse';
exception when others then
    return concat_ws(' ', sqlstate, sqlerrm);
end
$$;
create temporary table got (what text, got text, wanted text);
create temporary view plan as select planned from cdc.plan_models('s') as planned;
create temporary view mark as select applied_lsn::text as words from cdc.model_watermark;

insert into cdc.slot_position (slot_name, system_identifier, source_database, start_lsn, position_lsn)
values ('s', '1', 'app', '0/10', '0/90');
create table cdc.change_log_of_s partition of cdc.change_log for values from ('0/10') to ('0/A0');
insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)
select 's', '0/10'::pg_lsn + place * 16, 1, 1, now(), 'I', '{}' from generate_series(0, 4) as place;
insert into cdc.logged_table (slot_name, table_schema, table_name, held_since)
values ('s', 'public', 'orders', '{"*": "0/10"}');
insert into cdc.installed_model
    (slot_name, relation, model_name, relation_schema, relation_name, declaration, needed, routine, needs, table_nos)
values (
    's', 'app.ft', 'ft', 'app', 'ft',
    '{"query": "", "kind": "fact", "sources": [{"table": "public.orders", "schema": "public", "keeps_deleted": false,
    "columns": [{"name": "a", "is_needed": true}]}]}', '{"public.orders": ["a"]}',
    'app.apply(text, text, cdc.change[], integer[], integer[], text[], anyarray)', '[]', '{1}'
);
insert into cdc.baseline (slot_name, model_name, baseline_id, declaration, snapshot_lsn, system_identifier)
select slot_name, model_name, gen_random_uuid(), declaration, '0/10', '1' from cdc.registered_model;

update cdc.installed_model set needs = '[["public.orders", ["a"]]]';
create temporary view located as
select table_nos::text || ordinals::text as words, ctid as version from cdc.installed_model;
select cdc.note_ordinals('s', '[["public.lines", ["a"]], ["public.orders", ["b", "a"]]]') \g /dev/null
insert into got select 'a reader gives other ordinals', words, '{2}{{2}}' from located;
create temporary table placed as select version from located;
select cdc.note_ordinals('s', '[["public.lines", []], ["public.orders", ["c", "a"]]]') \g /dev/null
insert into got
select 'one whose ordinals stay is not touched', (version in (select version from placed))::text, 'true' from located;
update cdc.installed_model set needs = '[]', table_nos = '{1}', ordinals = null;

insert into got select 'nothing has caught up', cdc.caught_up_lsn('s')::text, null;
select cdc.start_rebuild(planned, '0/90') from plan \g /dev/null
insert into got select 'the first build begins', app.said(), 'rebuild';
select cdc.step_through(planned, '0/90', 'refill', 2) from plan \g /dev/null
insert into got select 'changes go in parts', app.said(), 'refill 2, refill 2, refill 1';
select cdc.end_models(array[planned], '0/40', 100) from plan \g /dev/null
insert into got select 'the watermark moves', applied_lsn::text, '0/40' from cdc.model_watermark;
delete from cdc.model_watermark;

insert into got select 'a model that catches up', cdc.apply_catching_up(planned, null, null, 3)::text, 'true' from plan;
insert into got select 'is rebuilt', app.said(), 'rebuild, refill 3, refill 2';
insert into got select 'and has caught up', words, '0/90' from mark;
insert into got select 'where it is', cdc.caught_up_lsn('s')::text, '0/90';

update cdc.model_watermark set applied_lsn = '0/30';
insert into got
select 'models that no change touches', cdc.move_untouched(array[planned], '0/30', '0/40'), 'app.ft' from plan;
insert into got select 'move with the others', applied_lsn::text, '0/40' from cdc.model_watermark;
update cdc.model_watermark set applied_lsn = '0/30';
insert into got
select 'one that has not caught up does not', concat_ws(' ', caught_up::text, app.said()), '{}'
from cdc.apply_caught_up('s', array(select planned from plan), '0/50', null);
-- A call may end at a position.
update cdc.model_watermark set applied_lsn = '0/30';
insert into got
select 'those that have caught up go no further', concat_ws(' ', state, applied_lsn, is_behind), 'follows 0/50 f' from cdc.apply('s', '0/50');
insert into got select 'and have what is before', app.said(), 'add plain 2';
insert into got
select 'nor back', concat_ws(' ', state, applied_lsn, is_behind), 'follows 0/50 f' from cdc.apply('s', '0/20');
insert into got select 'one that catches up', cdc.apply_catching_up(planned, '0/90', '0/70', 3)::text, 'true' from plan;
insert into got select 'goes no further', applied_lsn::text, '0/70' from cdc.model_watermark;
insert into got select 'and is done there', cdc.apply_catching_up(planned, '0/90', '0/70', 3)::text, 'false' from plan;
update cdc.installed_model set is_refresh_asked = true;
insert into got
select 'a baseline after it is not begun with', concat_ws(' ', state, applied_lsn, is_behind), 'waits 0/70 f' from cdc.apply('s', '0/F');
update cdc.installed_model set is_refresh_asked = false;
insert into got select 'so only one step was made', app.said(), 'add 1';

update cdc.model_watermark set applied_lsn = '0/30';
select cdc.apply_rest('s', array(select planned from plan), '0/50', null, false) \g /dev/null
insert into got select 'a model that has caught up is not among the rest', app.said(), null;
update cdc.installed_model set is_refresh_asked = true;
select cdc.apply_rest('s', array(select planned from plan), null, null, false) \g /dev/null
insert into got select 'one that is to be rebuilt is', app.said(), 'rebuild, refill 5';
insert into got
select 'a report', concat_ws(' ', model_name, relation, state, applied_lsn, engine, is_locked, is_behind),
    'ft app.ft follows 0/90 database f f'
from cdc.report_models('s', false, null);

-- Who names no model waits for those that have rows.
create temporary table marks as select * from cdc.model_watermark;
create temporary view held as select concat_ws(' ', cdc.wait_for('s', '0/90', '0'), cdc.wait_for('s', '0/90', '0', '{new}')) as words;
insert into cdc.installed_model
    (slot_name, relation, model_name, relation_schema, relation_name, declaration, needed, routine, needs, table_nos)
select slot_name, 'app.new', 'new', 'app', 'new', declaration, needed, routine, needs, table_nos from cdc.installed_model;
insert into got select 'a new model waits for its seed', words, 't f' from held;
update cdc.slot_position set broken = 'the source was restored';
insert into got select 'positions mean nothing', words, 'f f' from held;
delete from cdc.model_watermark;
update cdc.slot_position set broken = null;
insert into got select 'no model was ever built', words, 'f f' from held;
insert into cdc.model_watermark select * from marks;
delete from cdc.installed_model where model_name = 'new';

update cdc.slot_position set position_lsn = '0/A0';
insert into got select 'more is staged', is_behind::text, 'true' from cdc.report_models('s', true, null);

select cdc.note_failure(planned, '55P03', 'a lock', '') from plan \g /dev/null
insert into got
select 'a lock is no failure', concat_ws(' ', error, is_locked, failures, remedy), 'a lock t 0 nothing; it is tried again'
from cdc.installed_model;
select cdc.note_failure(planned, '22003', 'too large', null) from plan \g /dev/null
insert into got
select 'a number is too large', concat_ws(' ', error, is_locked, failures, left(remedy, 20)), 'too large f 1 cast what is summed '
from cdc.installed_model;
select cdc.note_failure(planned, 'WL004', 'below zero', null) from plan \g /dev/null
insert into got
select 'a number would fall below zero', remedy, '`spark-submit spark/seed.py --model ft`' from cdc.installed_model;
update cdc.installed_model set error = null, remedy = null, failures = 0, retry_at = null;
create temporary table earlier as select planned from plan;
savepoint installed; -- its rows have another version from here on
update cdc.installed_model set installed_at = now();
select cdc.note_failure(planned, '22003', 'too large', null) from earlier \g /dev/null
insert into got select 'what was installed meanwhile has not failed', error, null from cdc.installed_model;
insert into got
select 'nor does its plan hold', left(app.refusal($$select cdc.require_plan(planned) from earlier$$), 5), 'WL001';
insert into got
select 'nor is a function called that was replaced', left(app.refusal($$select cdc.unless_replaced('', 'app.said()'::regprocedure, '3')$$), 5), 'WL001';

-- A change that names no table.
create or replace function cdc.read_s(text, pg_lsn, pg_lsn, pg_lsn, bigint, pg_lsn, bigint, boolean) returns cdc.change[]
language sql security definer as $$
    select array_agg((null, null, commit_lsn, ordinal, false, 'no JSON', '{}', '{}', 1, commit_lsn, null)::cdc.change)
    from cdc.change_log
    where slot_name = $1 and (commit_lsn, ordinal) >= ($4, $5) and (commit_lsn, ordinal) < ($6, $7)
$$;
update cdc.model_watermark set applied_lsn = '0/30';
select from cdc.apply('s', '0/40') \g /dev/null
insert into got select 'concerns every model', app.said(), 'add 1';

-- What Spark has read is given to the routine, after the TRUNCATE.
insert into cdc.computed_change
    (slot_name, relation, batch, attempt, source_no, action, commit_lsn, is_cancelled, change_count, last_lsn)
values
('s', 'app.ft', 'b', 1, 1, 'T', 144, false, 1, 144),
('s', 'app.ft', 'b', 1, 1, 'I', 144, false, 2, 144),
('s', 'app.ft', 'b', 2, 1, 'I', 144, false, 4, 144);
insert into got
select 'nobody says how many rows there are', left(app.refusal($$select cdc.add_moved(planned, ('b', '{1}', null)::cdc.computed_batch) from plan$$), 5),
    'WL001';
select cdc.add_moved(planned, ('b', '{1}', 2)::cdc.computed_batch) from plan \g /dev/null
insert into got select 'first what is truncated, then the rest', app.said(), 'add 1, add 2';
insert into got select 'nothing is left of the batch', count(*)::text, '0' from cdc.computed_change;

update cdc.installed_model set engine = 'spark';
select cdc.apply_rest('s', array(select planned from plan), null, null, false) \g /dev/null
insert into got select 'the database leaves it to Spark', app.said(), null;
insert into cdc.computed_change
    (slot_name, relation, batch, attempt, source_no, action, commit_lsn, is_cancelled, change_count, last_lsn)
values ('s', 'app.ft', 'c', 1, 1, 'I', 64, false, 2, 64);
insert into got
select 'what was read from ' || from_lsn, cdc.apply_computed(
    's', 'app.ft', (planned).declaration, coalesce(baseline_id, (planned).baseline_id), left(from_lsn, 4)::pg_lsn, '0/50',
    ('c', '{1}', 1)::cdc.computed_batch
)::text, wanted
from plan
cross join (values
    ('0/30', null, 'false'),
    ('0/40 on another baseline', gen_random_uuid(), 'false'),
    ('0/40', null, 'true')
) as read (from_lsn, baseline_id, wanted);
insert into got select 'is added once', app.said(), 'add 2';
update cdc.installed_model set engine = 'database';

-- A dependent takes what it changes, unless that is too much or the model is built again.
insert into got select 'nobody takes its changes', cdc.has_dependents('app.ft')::text, 'false';
create function app.add(text) returns text language sql as 'select $1';
insert into cdc.dependent_model (relation, model_name, project, declaration, routine, indexes)
values ('app.up', 'up', 'p', '{"inputs": []}', 'app.add(text)', '[]');
insert into cdc.dependent_input (relation, input_relation) values ('app.up', 'app.ft');
insert into got select 'it takes what its input changes', cdc.has_dependents('app.ft')::text, 'true';
create or replace function cdc.changed_rows_limit() returns bigint language sql as 'select 1::bigint';
select cdc.update_dependents('app.ft', '{a,a}'::text[], '{b,b}') \g /dev/null
insert into got
select 'much moved at once: it is filled again', reason, 'more rows of app.ft changed at once than it follows' from cdc.to_fill;
insert into got select 'and takes nothing meanwhile', cdc.has_dependents('app.ft')::text, 'false';
delete from cdc.to_fill;
insert into cdc.dependent_model (relation, model_name, project, declaration, routine, indexes)
values ('app.top', 'top', 'p', '{"inputs": []}', 'app.add(text)', '[]');
insert into cdc.dependent_input (relation, input_relation) values ('app.top', 'app.up');
select cdc.ask_to_fill_dependents('app.ft', 'why ' || place) from generate_series(1, 2) as place \g /dev/null
insert into got select 'its input begins again, so it is filled, once', string_agg(relation || ' ' || reason, ', ' order by relation),
    'app.top why 1, app.up why 1'
from cdc.to_fill;
delete from cdc.dependent_model where model_name = 'top';
select cdc.note_dependent_failure('app.up', 'no') \g /dev/null
insert into got
select 'one that failed is tried later', concat_ws(' ', error, failures, retry_at > now()), 'no 1 t' from cdc.dependent_model;
-- In other schemas, app.told being a table and nothing the other.
insert into cdc.dependent_model (relation, model_name, project, declaration, routine, indexes)
select copy, 'up', 'p', '{"inputs": []}', 'app.add(text)', '[]' from unnest('{app.told,dropped.up}'::text[]) as copy;
select cdc.note_dependent_failure(copy, 'no') from unnest('{app.told,dropped.up}'::text[]) as copy \g /dev/null
insert into got
select 'so is a copy whose table is there, and another one is forgotten', string_agg(error, ', '), 'no, no'
from cdc.dependent_model;
delete from cdc.dependent_model where relation = 'app.told';
create function app.mine(text) returns text language sql as 'select $1';
select cdc.adopt_functions('app.up', '{app.add(text)}') \g /dev/null
select cdc.note_functions('app.up', '{app.add(text),app.mine(text)}') \g /dev/null
insert into got
select 'only what carries the mark is ours', string_agg(kind || ' ' || name, ', '), 'function app.add(text)'
from cdc.marked_object where relation = 'app.up';
select cdc.adopt_functions('app.up', '{}') \g /dev/null
insert into got
select 'a former function goes', concat_ws(' ', to_regprocedure('app.add(text)'), to_regprocedure('app.mine(text)')),
    'app.mine(text)';
-- Names that are found as they were written down, and would be other SQL where they are run.
create schema "app;delete/**/from/**/app";
create function "app;delete/**/from/**/app"."odd--"(text) returns text security definer language sql as 'select $1';
insert into got
select 'a routine is run by the name that the catalog has', name, '"app;delete/**/from/**/app"."odd--"'
from cdc.find_installed('app;delete/**/from/**/app.odd--(text)', '(text)', '{text}');
comment on function "app;delete/**/from/**/app"."odd--"(text) is 'waltally calls it';
insert into cdc.installed_function (relation, name)
values ('app.odd', 'app;delete/**/from/**/app.odd--(text)');
insert into got
select 'and so is what is ours', name, '"app;delete/**/from/**/app"."odd--"(text)' from cdc.marked_object where relation = 'app.odd';

update cdc.installed_model
set
    needs = '[["public.orders", ["a"], false, "public", "orders"]]',
    former = '{"needs": [["public.orders", ["b"], true, "public", "orders"]]}';
insert into got
select 'a reader gives what the former query needs too', cdc.make_reader('s')::text,
    '[["public.orders", ["a", "b"], true, "public", "orders"]]';

insert into got
select 'no end', substr(app.refusal($$select cdc.wait_for('s', '0/A0', null)$$), 7),
    'the position and the time to wait for must not be null';
insert into got
select 'names that no model has', substr(app.refusal($$select cdc.wait_for('s', '0/A0', '0', '{ft,none,other}')$$), 7),
    'no model of slot s is named none, other';
insert into got
select 'no name', substr(app.refusal($$select cdc.wait_for('s', '0/A0', '0', '{}')$$), 7),
    'a model to wait for has no name';

select * from got as failed
where got is distinct from wanted;
rollback;
