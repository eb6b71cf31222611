-- Roles with the least rights: waltally_loader, waltally_dbt, waltally_spark, waltally_reader.
--
--   psql -d notify -f ops/roles.sql                      the source is the target
--   psql -d notify -v part=source -f ops/roles.sql       at the source alone
--   psql -d warehouse -v part=target -f ops/roles.sql    at the target alone
--
-- Run it as a superuser before `loader setup`, after it, and after the first `dbt build`: it can grant
-- only on tables that exist. Safe to repeat. It sets no password: use \password waltally_loader at the
-- source and at the target. docs/roles.md says what each right is for.
--
-- Variables, by -v: part (both), loader, dbt, spark, reader (the roles' names), schema (cdc),
-- analytics (analytics), live, archive (the counted tables), services, templates, build (on: the
-- loader may act as the role of dbt, for `loader run --build`).

\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
\if :{?part} \else \set part both \endif
\if :{?loader} \else \set loader waltally_loader \endif
\if :{?dbt} \else \set dbt waltally_dbt \endif
\if :{?spark} \else \set spark waltally_spark \endif
\if :{?reader} \else \set reader waltally_reader \endif
\if :{?schema} \else \set schema cdc \endif
\if :{?analytics} \else \set analytics analytics \endif
\if :{?live} \else \set live public.notifications \endif
\if :{?archive} \else \set archive public.notification_history \endif
\if :{?services} \else \set services public.services \endif
\if :{?templates} \else \set templates public.templates \endif
\if :{?build} \else \set build on \endif

select
    :'part' in ('both', 'source') as at_source,
    :'part' in ('both', 'target') as at_target,
    :'part' not in ('both', 'source', 'target') as part_unknown,
    (select rolsuper from pg_roles where rolname = current_user) as superuser
\gset
\if :part_unknown
do $$ begin raise exception 'part is not one of both, source, target'; end $$;
\endif

begin;
-- A change of owner waits for a running loader. It must not block other sessions for long.
set local lock_timeout = '30s';
set local client_min_messages = error;

\if :at_source
-- The loader: follows the slot. It reads no row of a table; the slot gives it the changes.
select format('create role %I login', :'loader')
where not exists (select from pg_roles where rolname = :'loader') \gexec
select format('alter role %I replication', :'loader')
where not (select rolreplication from pg_roles where rolname = :'loader') \gexec
grant connect on database :"DBNAME" to :"loader";

-- Spark: a temporary slot for its snapshot, and the counted columns and the address of each row.
select format('create role %I login', :'spark')
where not exists (select from pg_roles where rolname = :'spark') \gexec
select format('alter role %I replication', :'spark')
where not (select rolreplication from pg_roles where rolname = :'spark') \gexec
grant connect on database :"DBNAME" to :"spark";
select distinct format('grant usage on schema %s to %I', relnamespace::regnamespace, :'spark')
from pg_class
where oid in (:'live'::regclass, :'archive'::regclass) \gexec
grant select (service_id, template_id, notification_type, notification_status, ctid)
    on :live, :archive to :"spark";
\endif

\if :at_target
select format('create role %I login', missing.name)
from (values (:'loader'), (:'dbt'), (:'spark'), (:'reader')) as missing (name)
where not exists (select from pg_roles where rolname = missing.name) \gexec
grant connect on database :"DBNAME" to :"loader", :"dbt", :"spark", :"reader";

-- The loader owns the staging schema and its tables; dbt owns the facts.
select format('create schema %I authorization %I', owned.name, owned.owner)
from (values (:'schema', :'loader'), (:'analytics', :'dbt')) as owned (name, owner)
where not exists (select from pg_namespace where nspname = owned.name) \gexec
select format('alter schema %I owner to %I', owned.name, owned.owner)
from (values (:'schema', :'loader'), (:'analytics', :'dbt')) as owned (name, owner)
inner join pg_namespace as n on n.nspname = owned.name
where n.nspowner <> to_regrole(quote_ident(owned.owner)) \gexec
select format(
    'alter %s %I.%I owner to %I',
    case c.relkind when 'v' then 'view' else 'table' end,
    owned.name,
    c.relname,
    owned.owner
)
from (values (:'schema', :'loader'), (:'analytics', :'dbt')) as owned (name, owner)
inner join pg_namespace as n on n.nspname = owned.name
inner join pg_class as c on c.relnamespace = n.oid
where
    c.relkind in ('r', 'p', 'v')
    and c.relowner <> to_regrole(quote_ident(owned.owner))
    -- The table that a running seed fills belongs to the role that runs the seed.
    and c.relname !~ '^historical_counts_incoming_' \gexec
select format('alter function %s owner to %I', p.oid::regprocedure, :'loader')
from pg_proc as p
where
    p.pronamespace = to_regnamespace(quote_ident(:'schema'))
    and p.proowner <> to_regrole(quote_ident(:'loader')) \gexec

-- Tables that the loader makes later, such as the change log's next partitions.
alter default privileges for role :"loader" in schema :"schema"
    grant select on tables to :"dbt", :"spark";
alter default privileges for role :"loader" in schema :"schema"
    grant execute on functions to :"dbt", :"spark";

grant usage on schema :"schema" to :"dbt";
grant usage, create on schema :"schema" to :"spark";
grant usage on schema :"analytics" to :"reader", :"spark";
grant execute on all functions in schema :"schema" to :"dbt", :"spark";
grant temporary on database :"DBNAME" to :"dbt";

select format('grant %s on %I.%I to %I', given.rights, given.place, given.name, given.grantee)
from (
    values
    (:'schema', 'change_log', 'select', :'dbt'),
    (:'schema', 'slot_position', 'select', :'dbt'),
    (:'schema', 'model_watermark', 'select, insert, update', :'dbt'),
    (:'schema', 'historical_snapshot', 'select', :'dbt'),
    (:'schema', 'historical_counts', 'select', :'dbt'),
    (:'schema', 'historical_rejections', 'select', :'dbt'),
    (:'schema', 'slot_position', 'select', :'spark'),
    (:'schema', 'historical_snapshot', 'select, insert, update', :'spark'),
    (:'schema', 'historical_counts', 'select, insert, delete', :'spark'),
    (:'schema', 'historical_rejections', 'select, insert, delete', :'spark'),
    (:'schema', 'change_log', 'select', :'spark'),
    (:'schema', 'model_watermark', 'select', :'spark'),
    (:'schema', 'archive_position', 'select, insert, update', :'spark'),
    (:'analytics', 'ft_service_stats', 'select', :'spark'),
    (:'analytics', 'rejected_changes', 'select', :'spark'),
    (:'analytics', 'ft_service_stats', 'select', :'reader'),
    (:'analytics', 'service_totals', 'select', :'reader')
) as given (place, name, rights, grantee)
where to_regclass(format('%I.%I', given.place, given.name)) is not null \gexec
-- Partitions that are older than the default privileges above.
select format('grant select on %s to %I, %I', inhrelid::regclass, :'dbt', :'spark')
from pg_inherits
where inhparent = to_regclass(format('%I.change_log', :'schema')) \gexec

-- If services and templates are in this database, dbt's tests look up each id in them.
select
    format('grant usage on schema %s to %I', relnamespace::regnamespace, :'dbt'),
    format('grant select (id) on %s to %I', oid::regclass, :'dbt')
from pg_class
where oid in (to_regclass(:'services'), to_regclass(:'templates')) \gexec

-- `loader run --build` with DBT_ROLE set to the role of dbt.
\if :build
grant :"dbt" to :"loader";
\else
revoke :"dbt" from :"loader";
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
commit;

\if :at_target
select format('Not there yet, so run this again later: %I.%I', wanted.place, wanted.name)
from (
    values
    (:'schema', 'change_log'),
    (:'analytics', 'ft_service_stats'),
    (:'analytics', 'service_totals')
) as wanted (place, name)
where to_regclass(format('%I.%I', wanted.place, wanted.name)) is null;
\endif
