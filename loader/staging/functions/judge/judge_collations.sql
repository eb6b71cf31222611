-- Collations under which texts that differ are equal, where a model over models compares by one: its indexes hold the
-- beginning of a text.
create or replace function cdc.judge_collations(nodes cdc.tree_node[], sources jsonb)
returns table (reason text, remedy text, path text)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select distinct
        format('%s, a nondeterministic collation: texts that differ are equal under it', c.oid::regcollation),
        'lower(), or `collate "C"`, in the model below',
        node.path
    from unnest(nodes) as node
    cross join lateral (values (node.fields ->> 'inputcollid'), (node.fields ->> 'collOid'), (node.fields ->> 'varcollid')) as own (number)
    inner join pg_collation as c on c.oid = own.number::oid and not c.collisdeterministic
    where sources @? '$[*].model'
$$;
