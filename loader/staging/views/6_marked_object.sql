-- The functions that dbt has made for the models and that are there. A comment marks each of them, which
-- only its owner can give: dbt's role could write down the name of anything. The names are the catalog's, quoted: what
-- was written down may be found and still be other SQL.
create or replace view cdc.marked_object as
select
    installed.model_name,
    installed.kind,
    p.oid::regprocedure::text as name,
    p.proowner as owner
from cdc.installed_object as installed
inner join pg_proc as p on p.oid = to_regprocedure(installed.name)
where installed.kind = 'function' and starts_with(obj_description(p.oid, 'pg_proc'), 'waltally calls it');
