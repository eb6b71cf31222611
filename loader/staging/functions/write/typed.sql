-- SQL: what makes a text a value of a model's column: its type and, of a text, its collation.
create or replace function cdc.typed(compiled jsonb, name text, type text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select type || coalesce(
        ' collate ' || (compiled #>> array['collations', name]),
        case when type in ('text', 'character varying', 'bpchar') then ' collate "default"' else '' end
    )
$$;
