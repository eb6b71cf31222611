-- The functions that dbt has made for the models and that are there, and the indexes of ours on the models. A comment
-- marks each function, which only its owner can give: dbt's role could write down the name of anything. The names are
-- the catalog's, quoted: what was written down may be found and still be other SQL.
create or replace view cdc.marked_object as
select
    installed.relation,
    'function' as kind,
    p.oid::regprocedure::text as name,
    p.proowner as owner
from cdc.installed_function as installed
inner join pg_proc as p on p.oid = to_regprocedure(installed.name)
where starts_with(obj_description(p.oid, 'pg_proc'), 'waltally calls it')
union all
select
    own.relation,
    'index' as kind,
    c.oid::regclass::text,
    c.relowner
from (
    select relation from cdc.installed_model
    union
    select relation from cdc.dependent_model
) as own
inner join pg_class as read on true
inner join pg_namespace as n on n.oid = read.relnamespace and n.nspname || '.' || read.relname = own.relation
inner join pg_index as i on i.indrelid = read.oid
inner join pg_class as c on c.oid = i.indexrelid
where c.relname ~ '^waltally_[0-9a-f]{32}$';
