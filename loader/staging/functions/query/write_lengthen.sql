-- SQL: after an error of no row, a key that is too long for an index is no error of a group either: add again.
create or replace function cdc.write_lengthen(compiled jsonb, relation text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when cdc.key_hash(compiled) is null then '' else format(
        e'            continue when waltally_group is null and waltally_state = ''54000'' and cdc.lengthen_keys(%L, %L);\n',
        relation, cdc.key_hash(compiled)
    ) end
$$;
