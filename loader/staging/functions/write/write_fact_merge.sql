-- SQL: the function by which a fact's routine adds what write_deltas gives to its table, or, with `waltally_group`, of
-- that one group alone.
create or replace function cdc.write_fact_merge(compiled jsonb, merge text, deltas text, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {merge}(
    step text,
    slot text,
    good cdc.change[],
    table_nos integer[],
    ordinals integer[],
    truncated text[],
    waltally_truncated integer[],
    waltally_group text,
    changed_rows anyarray,
    out waltally_emptied tid[], out before anyarray, out after anyarray
)
language plpgsql set search_path = pg_catalog, pg_temp
as $routine$
#variable_conflict use_column
declare
    waltally_least_count numeric;
begin
    {statement}
end
$routine$
$template$,
        jsonb_build_object(
            'merge', merge,
            'statement', cdc.write_merge(compiled, relation, format(
                e'select * from %s($3, $4, $5, $1, $2, $6, $7) as changed'
                '\n    where waltally_ignored_lsn is null\n        and ($8 is null or %s = $8)',
                deltas, cdc.write_group_text(compiled)
            ), '$9 is not null', '$1 = ''rebuild''')
        )
    )
$$;
