-- Whether two values of a type that are equal are the same, to the last character.
create or replace function cdc.has_one_spelling(type_oid oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
    select type_oid in (
        'boolean'::regtype, 'smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'text'::regtype, 'varchar'::regtype,
        'uuid'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype, 'bytea'::regtype
    )
$$;
