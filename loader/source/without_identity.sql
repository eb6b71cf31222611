-- Tables of ours that a publication of the target has, and that lack a replica identity; by default
-- the primary key is one.
select distinct published.schemaname::text, published.tablename::text
from pg_publication_tables as published
inner join pg_namespace as n on n.nspname = published.schemaname
inner join pg_class as c on c.relnamespace = n.oid and c.relname = published.tablename
where
    (
        n.nspname = %s
        or n.nspname || '.' || c.relname in (select relation from {0}.installed_model)
        or c.relname = 'rejected_changes'
        and n.nspname in (select relation_schema from {0}.registered_model)
    )
    and (
        c.relreplident = 'n'
        or c.relreplident = 'd'
        and not exists (select from pg_index as x where x.indrelid = c.oid and x.indisprimary)
    )
order by 1, 2
