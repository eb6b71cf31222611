-- Roles with the least rights: waltally_loader, waltally_dbt, waltally_spark, waltally_reader.
--
--   psql -d notify -f ops/roles.sql                      the source is the target
--   psql -d notify -v part=source -f ops/roles.sql       at the source alone
--   psql -d warehouse -v part=target -f ops/roles.sql    at the target alone
--
-- Run it as a superuser, or as the administrator of a managed server, at any moment, also beside a running loader, and
-- again after you add a model: it can grant only on tables that exist. It sets no password:
-- use \password waltally_loader at the source and at the target. docs/roles.md says what each right is for.
--
-- What it grants on the source's tables and on the models follows from what `loader setup` registered.
-- At a target alone it prints the grants that the source needs: paste them there.
--
-- Variables, by -v: part (both), loader, dbt, spark, reader (the roles' names), schema (cdc),
-- analytics (analytics), readable (further tables and views of the reader: schema.name,schema.name),
-- lookups (tables in this database whose id dbt's tests look up, written alike).

\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
-- Names are those of pg_catalog, whatever else somebody has made in a schema that this session searches.
set search_path = pg_catalog, pg_temp;
-- It compiles short statements over the catalog for seconds.
set jit = off;
\if :{?part} \else \set part both \endif
\if :{?loader} \else \set loader waltally_loader \endif
\if :{?dbt} \else \set dbt waltally_dbt \endif
\if :{?spark} \else \set spark waltally_spark \endif
\if :{?reader} \else \set reader waltally_reader \endif
\if :{?schema} \else \set schema cdc \endif
\if :{?analytics} \else \set analytics analytics \endif
\if :{?readable} \else \set readable '' \endif
\if :{?lookups} \else \set lookups '' \endif

select
    :'part' in ('both', 'source') as at_source,
    :'part' in ('both', 'target') as at_target,
    :'part' = 'target' as source_is_elsewhere,
    :'schema' || '_jobs' as jobs,
    to_regclass(format('%I.registered_model', :'schema')) is not null as is_registered,
    :'part' not in ('both', 'source', 'target') as part_unknown,
    (select rolsuper from pg_roles where rolname = current_user) as superuser
\gset
\if :part_unknown
do $$ begin raise exception 'part is not one of both, source, target'; end $$;
\endif

set client_min_messages = error;
select
    set_config('waltally.loader', :'loader', false) as loader,
    set_config('waltally.dbt', :'dbt', false) as dbt,
    set_config('waltally.schema', :'schema', false) as schema,
    set_config('waltally.analytics', :'analytics', false) as analytics
\gset given_

\if :at_source
-- The loader: follows the slot. It reads no row of a table; the slot gives it the changes.
select format('create role %I login', :'loader')
where not exists (select from pg_roles where rolname = :'loader') \gexec
select case
    when to_regrole('rds_replication') is null then format('alter role %I replication', :'loader')
    else format('grant rds_replication to %I', :'loader')
end
where not (select rolreplication from pg_roles where rolname = :'loader') \gexec
grant connect on database :"DBNAME" to :"loader";

-- Spark: a temporary slot for its snapshot. The columns that it reads are granted below.
select format('create role %I login', :'spark')
where not exists (select from pg_roles where rolname = :'spark') \gexec
select case
    when to_regrole('rds_replication') is null then format('alter role %I replication', :'spark')
    else format('grant rds_replication to %I', :'spark')
end
where not (select rolreplication from pg_roles where rolname = :'spark') \gexec
grant connect on database :"DBNAME" to :"spark";
\endif

\if :at_target
select format('create role %I login', missing.name)
from (values (:'loader'), (:'dbt'), (:'spark'), (:'reader')) as missing (name)
where not exists (select from pg_roles where rolname = missing.name) \gexec
grant connect on database :"DBNAME" to :"loader", :"dbt", :"spark", :"reader";
-- A managed server's administrator is no superuser, and gives objects only to roles that it is a member of.
select format('grant %I to %I', name, current_user)
from (values (:'loader'), (:'dbt')) as owners (name)
where not pg_has_role(name, 'usage') \gexec

-- The loader owns the staging schema, its tables and cdc.apply; dbt owns the models and the routines that
-- fill them. The jobs of Spark make tables in a schema of their own: routines search the staging schema,
-- so nobody but its owner may create there.
select format('create schema %I authorization %I', owned.name, owned.owner)
from (
    values (:'schema', :'loader'), (:'jobs', :'loader'), (:'analytics', :'dbt')
) as owned (name, owner)
where not exists (select from pg_namespace where nspname = owned.name) \gexec
select format('alter schema %I owner to %I', owned.name, owned.owner)
from (
    values (:'schema', :'loader'), (:'jobs', :'loader'), (:'analytics', :'dbt')
) as owned (name, owner)
inner join pg_namespace as n on n.nspname = owned.name
where n.nspowner <> to_regrole(quote_ident(owned.owner)) \gexec
-- One after the other, each in a transaction of its own: whoever holds one table and waits for another may wait in a
-- circle with a loader. It does not wait long, because who comes later waits behind it.
set lock_timeout = '1s';
do $$
declare
    change text;
    tries integer := 0;
begin
    loop
        change := (
            select format(
                'alter %s %s owner to %I',
                case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'c' then 'type' else 'table' end,
                c.oid::regclass,
                owned.owner
            )
            from (
                values
                (current_setting('waltally.schema'), current_setting('waltally.loader')),
                (current_setting('waltally.analytics'), current_setting('waltally.dbt'))
            ) as owned (name, owner)
            inner join pg_namespace as n on n.nspname = owned.name
            inner join pg_class as c on c.relnamespace = n.oid
            where c.relkind in ('r', 'p', 'v', 'm', 'c') and c.relowner <> to_regrole(quote_ident(owned.owner))
            order by c.oid
            limit 1
        );
        exit when change is null;
        begin
            execute change;
            tries := 0;
        exception
            -- Somebody else changes the same object at this moment.
            when lock_not_available or deadlock_detected or internal_error then
                tries := tries + 1;
                if tries = 60 then
                    raise exception '% (%)', sqlerrm, change using hint = 'Run the file again when what keeps it locked has ended.';
                end if;
        end;
        commit;
        perform pg_sleep(0.1 * sign(tries));
    end loop;
end
$$;
reset lock_timeout;

-- Tables that the loader makes later, such as the change log's next partitions.
alter default privileges for role :"loader" in schema :"schema"
    grant select on tables to :"dbt", :"spark";

grant usage on schema :"schema" to :"dbt", :"spark", :"reader";
grant usage, create on schema :"jobs" to :"spark";
grant usage on schema :"analytics" to :"loader", :"reader", :"spark";
-- A job compares in a table of its session.
grant temporary on database :"DBNAME" to :"dbt", :"spark";

select format('grant %s on %I.%I to %I', given.rights, given.place, given.name, given.grantee)
from (
    values
    (:'schema', 'change_log', 'select', :'dbt'),
    (:'schema', 'slot_position', 'select', :'dbt'),
    (:'schema', 'registered_model', 'select', :'dbt'),
    (:'schema', 'model_state', 'select', :'dbt'),
    (:'schema', 'model_watermark', 'select', :'dbt'),
    -- A model over models is made of what is installed.
    (:'schema', 'dependent_model', 'select', :'dbt'),
    (:'schema', 'dependent_input', 'select', :'dbt'),
    (:'schema', 'to_fill', 'select', :'dbt'),
    (:'schema', 'installed_function', 'select', :'dbt'),
    (:'schema', 'marked_object', 'select', :'dbt'),
    -- Its routines write down what a model ignores.
    (:'schema', 'ignored_delete', 'select, insert, delete', :'dbt'),
    (:'schema', 'registered_model', 'select', :'spark'),
    -- A reader asks what a model is declared as and how far it is, and nothing else there.
    (:'schema', 'registered_model', 'select', :'reader'),
    (:'schema', 'model_state', 'select', :'reader'),
    (:'schema', 'dependent_model', 'select', :'reader'),
    (:'schema', 'model_watermark', 'select', :'reader'),
    (:'schema', 'baseline', 'select', :'dbt'),
    (:'schema', 'baseline_group', 'select', :'dbt'),
    (:'schema', 'baseline_rejection', 'select', :'dbt'),
    (:'schema', 'slot_position', 'select', :'spark'),
    (:'schema', 'logged_table', 'select', :'spark'),
    (:'schema', 'baseline', 'select, insert, update, delete', :'spark'),
    (:'schema', 'baseline_group', 'select, insert, delete', :'spark'),
    (:'schema', 'baseline_rejection', 'select, insert, delete', :'spark'),
    (:'schema', 'ignored_delete', 'select, insert, delete', :'spark'),
    (:'schema', 'reader_position', 'select, insert, update', :'spark'),
    (:'schema', 'model_state', 'select', :'spark'),
    (:'schema', 'dependent_model', 'select, update (audited_at, major_version)', :'spark'),
    (:'schema', 'to_fill', 'select', :'spark'),
    (:'schema', 'installed_model', 'select', :'spark'),
    (:'schema', 'change_log', 'select', :'spark'),
    (:'schema', 'model_watermark', 'select, update (audited_at, major_version)', :'spark'),
    (:'schema', 'computed_change', 'select, insert', :'spark'),
    (:'analytics', 'rejected_changes', 'select', :'spark')
) as given (place, name, rights, grantee)
where to_regclass(format('%I.%I', given.place, given.name)) is not null \gexec
-- apply and install_model are for those who are named here; the others are what their callers need.
select format('grant execute on function %s to %I', p.oid::regprocedure, given.grantee)
from (
    values
    ('apply', :'dbt'),
    ('apply', :'spark'),
    ('install_model', :'dbt'),
    ('register_dependent', :'dbt'),
    ('forget_changes', :'dbt'),
    ('note_project', :'dbt'),
    ('batch_size', :'dbt'),
    ('lock_key', :'dbt'),
    ('jsonb_or_null', :'dbt'),
    ('explain_models', :'dbt'),
    ('plan_dependents', :'dbt'),
    ('apply_computed', :'spark'),
    ('baseline_limits', :'spark'),
    ('major_version', :'spark'),
    ('zone_data', :'spark'),
    ('held_since', :'spark'),
    ('find_gone', :'spark'),
    ('lock_key', :'spark'),
    ('plan_models', :'spark'),
    ('explain_models', :'spark'),
    ('plan_dependents', :'spark'),
    ('batch_end', :'spark'),
    ('part_end', :'spark'),
    ('batch_bytes', :'spark'),
    ('explain_models', :'reader'),
    ('plan_dependents', :'reader'),
    ('wait_for', :'reader')
) as given (name, grantee)
inner join pg_proc as p
    on p.pronamespace = to_regnamespace(quote_ident(:'schema')) and p.proname = given.name \gexec
-- Partitions that are older than the default privileges above.
select format('grant select on %s to %I, %I', inhrelid::regclass, :'dbt', :'spark')
from pg_inherits
where inhparent = to_regclass(format('%I.change_log', :'schema')) \gexec

select
    format('grant usage on schema %s to %I', c.relnamespace::regnamespace, wanted.grantee),
    format('grant select%s on %s to %I', wanted.columns, c.oid::regclass, wanted.grantee)
from (
    select name, '', :'reader' from unnest(string_to_array(:'readable', ',')) as name
    union all
    select name, ' (id)', :'dbt' from unnest(string_to_array(:'lookups', ',')) as name
) as wanted (name, columns, grantee)
inner join pg_class as c on c.oid = to_regclass(trim(wanted.name)) \gexec

\if :is_registered
select
    format('grant usage on schema %I to %I, %I', relation_schema, :'spark', :'reader'),
    format('grant select on %I.%I to %I, %I', relation_schema, relation_name, :'spark', :'reader')
from :"schema".registered_model
where to_regclass(format('%I.%I', relation_schema, relation_name)) is not null \gexec

select format('grant select on %s to %I, %I', c.oid::regclass, :'spark', :'reader')
from :"schema".dependent_model as own
cross join pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where n.nspname || '.' || c.relname = own.relation \gexec
-- The views over models, as `loader init` writes them. A later build grants by itself: see grant_to_reader of the package.
select distinct
    format('grant usage on schema %s to %I', c.relnamespace::regnamespace, :'reader'),
    format('grant select on %s to %I', c.oid::regclass, :'reader')
from (
    select relation_schema || '.' || relation_name as name from :"schema".registered_model
    union
    select relation from :"schema".dependent_model
) as model
cross join pg_class as read
inner join pg_namespace as n on n.oid = read.relnamespace and n.nspname || '.' || read.relname = model.name
inner join pg_depend as d on d.refclassid = 'pg_class'::regclass and d.refobjid = read.oid and d.classid = 'pg_rewrite'::regclass
inner join pg_rewrite as r on r.oid = d.objid
inner join pg_class as c on c.oid = r.ev_class
where c.relkind = 'v' and c.relowner = to_regrole(quote_ident(:'dbt')) \gexec

-- The columns that the models need of the source's tables, and the address of each row.
prepare source_grants as
with needed as (
    select
        source.value ->> 'schema' as place,
        substr(source.value ->> 'table', length(source.value ->> 'schema') + 2) as name,
        used.own
    from :"schema".registered_model
    cross join jsonb_array_elements(registered_model.declaration -> 'sources') as source (value)
    cross join lateral (
        select value from jsonb_array_elements_text(registered_model.needed -> (source.value ->> 'table'))
        union
        select 'ctid'
    ) as used (own)
),

-- A job reads the partitions by themselves.
held as (
    select place, name, own from needed
    union
    select n.nspname::text, c.relname::text, needed.own
    from needed
    cross join lateral pg_partition_tree(to_regclass(format('%I.%I', place, name))) as tree
    inner join pg_class as c on c.oid = tree.relid
    inner join pg_namespace as n on n.oid = c.relnamespace
)

select format('grant usage on schema %I to %I;', place, :'spark')
from held
where :'source_is_elsewhere'::boolean or to_regnamespace(quote_ident(place)) is not null
union
select format(
    'grant select (%s) on %I.%I to %I;',
    string_agg(format('%I', own), ', ' order by own),
    place,
    name,
    :'spark'
)
from held
where :'source_is_elsewhere'::boolean or to_regclass(format('%I.%I', place, name)) is not null
group by place, name
order by 1 desc;
\if :source_is_elsewhere
\else
execute source_grants \gexec
\endif
\endif
\endif

-- Optional: lets the slot skip the loader's own rows instead of decoding them.
\if :superuser
grant execute on function
    pg_replication_origin_create(text),
    pg_replication_origin_drop(text),
    pg_replication_origin_oid(text),
    pg_replication_origin_session_setup(text)
to :"loader";
\endif

\if :at_target
-- Last, because what dbt's functions read was granted above; and all at once, because a function of ours that runs as the
-- loader calls others. No session waits for it.
begin;
select format('alter function %s owner to %I', p.oid::regprocedure, :'loader')
from pg_proc as p
where
    p.pronamespace = to_regnamespace(quote_ident(:'schema'))
    and p.proowner <> to_regrole(quote_ident(:'loader')) \gexec
\if :is_registered
-- The functions of the models, in whatever schema. dbt grants this too, to the owner that it finds. The reader of the log
-- is in ours. For tables of models in another schema, run this again with analytics=that schema.
select
    format('grant execute on function %s to %I', made.name, :'loader'),
    format('alter function %s owner to %I', made.name, :'dbt')
from :"schema".marked_object as made
inner join pg_proc as p on p.oid = to_regprocedure(made.name)
where made.kind = 'function' and p.pronamespace <> to_regnamespace(quote_ident(:'schema')) \gexec
\endif
commit;
\endif

\if :at_target
\if :is_registered
select format('Not there yet, so run this again later: %I.%I', relation_schema, relation_name)
from :"schema".registered_model
where to_regclass(format('%I.%I', relation_schema, relation_name)) is null;
\else
select format('Not there yet, so run this again later: %I.registered_model', :'schema');
\endif
select format('Not there yet, so run this again later: %s', trim(name))
from unnest(string_to_array(:'readable', ',')) as name
where trim(name) <> '' and to_regclass(trim(name)) is null;
\if :is_registered
\if :source_is_elsewhere
\echo Run at the source:
execute source_grants;
\endif
\endif
\endif
