-- SQL: the statements by which a fact over models adds what the function of write_model_deltas gives.
create or replace function cdc.write_model_merge(compiled jsonb, deltas text, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when cdc.key_hash(compiled) is null then own.by_columns else format(
        $template$if cdc.has_short_keys(%L) then
    %s
else
    -- A key once was too long for the unique index.
    %s
end if;$template$,
        relation, cdc.indent(own.by_columns, '    '),
        cdc.indent(cdc.write_merge(compiled, relation, own.totals, own.returns_rows, true), '    ')
    ) end
    from (
        select named.*, cdc.write_merge(compiled, relation, named.totals, named.returns_rows, false) as by_columns
        from (
            select
                '$5 is not null and $1 = ''add''' as returns_rows,
                format(e'(\n    %s\n)', cdc.indent(
                    cdc.write_totals(compiled, format('select * from %s($1, $2, $3, $4, waltally_queued)', deltas)), '    '
                )) as totals
        ) as named
    ) as own
$$;
