-- SQL: a model's table, with its key. A text is kept under the collation "C": in the order of bytes, and its index is cheap.
create or replace function cdc.write_table(compiled jsonb, relation text, key_name text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return format(
        e'create table %s (\n    %s\n) with (fillfactor = 80);\n',
        relation,
        (
            select string_agg(
                format('%I %s', one.name, one.type)
                || case when one.type ~ '^(text|character varying|bpchar)(\[\])?$' then ' collate "C"' else '' end
                || case
                    when one.kind = 'derived' and (compiled ->> 'is_total')::boolean
                        then format(' generated always as (%s) stored', one.expression)
                    -- A group that a batch empties has no rows for a moment, which its query never sees.
                    when one.kind = 'derived'
                        then format(' generated always as (case when %I > 0 then %s end) stored', compiled ->> 'rows', one.expression)
                    when one.kind = 'id' then ' primary key'
                    when one.kind = 'part' or one.kind = 'kept' and compiled ->> 'kind' = 'fact' and one.type = 'bigint' and not exists (
                        select from jsonb_array_elements(compiled -> 'kept') as kept
                        where kept ->> 'name' = one.name and kept ? 'counted_by'
                    ) then ' not null'
                    else ''
                end,
                e',\n    ' order by one.place
            )
            from cdc.list_columns(compiled) as one
        )
    ) || cdc.write_key(compiled, relation, key_name);
end
$$;
