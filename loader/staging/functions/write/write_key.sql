-- SQL: the unique index by which a batch finds a model's groups, or its rows. Null is a group too; a total has one row.
create or replace function cdc.write_key(compiled jsonb, relation text, key_name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when compiled -> 'keys' = '[]' then format('create unique index %I on %s ((true));', key_name, relation)
        else format(
            'alter table %s add constraint %I %s (%s);',
            relation, key_name, case compiled ->> 'kind' when 'rows' then 'primary key' else 'unique nulls not distinct' end,
            cdc.write_names(compiled -> 'keys', '%I')
        )
    end
$$;
