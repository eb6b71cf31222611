-- By what a model whose query or whose tables have changed keeps its rows: the query means what it meant, and of the
-- columns that it reads some have a wider type or another name: {"schema.table": {"column": {"former": ["name"],
-- "until": "LSN"}}}, as list_needs takes it. Null where it does not. `compiled` is what it is compiled to now.
create or replace function cdc.same_rows(
    slot text, model text, query text, sources jsonb, options jsonb, compiled jsonb
) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    registered record;
    former jsonb;
    known jsonb;
    renamed jsonb;
    has_other boolean;
    -- An update of a row without its old one is filled with what is there: nobody sees which column was renamed.
    may_rename constant boolean := coalesce((compiled ->> 'has_old_rows')::boolean, true) and options ->> 'engine' is distinct from 'spark';
begin
    select own.* into registered from cdc.registered_reading(slot, model) as own;
    -- What was left out because it did not fit may fit now.
    if registered.reading is null or registered.declaration = compiled or registered.lacks_changes then
        return null;
    end if;
    -- The former columns with the types of now, under the former names and those of now.
    select
        jsonb_agg(before.value || jsonb_build_object('columns', columns.former)),
        jsonb_agg(source.value || jsonb_build_object('columns', columns.known)),
        coalesce(jsonb_object_agg(source.value ->> 'table', columns.renamed) filter (where columns.renamed is not null), '{}'),
        bool_or(columns.has_other)
    into former, known, renamed, has_other
    from jsonb_array_elements(registered.reading -> 'sources') as before (value)
    inner join jsonb_array_elements(sources) as source (value) on source.value ->> 'table' = before.value ->> 'table'
    cross join lateral (
        select
            jsonb_agg(
                now.value || jsonb_build_object('name', own.value -> 'name')
                || case when is_renamed then jsonb_build_object('renamed', now.value -> 'name') else '{}' end
                order by own.ordinal
            ) as former,
            jsonb_agg(now.value order by own.ordinal) as known,
            jsonb_object_agg(now.value ->> 'name', cdc.rename_note(slot, registered.declaration, before.value ->> 'table', own.value ->> 'name', is_renamed))
            filter (where is_renamed or cdc.rename_note(slot, registered.declaration, before.value ->> 'table', own.value ->> 'name', false) is not null) as renamed,
            bool_or(now.value - 'number' <> own.value - 'number') as has_other
        from jsonb_array_elements(before.value -> 'columns') with ordinality as own (value, ordinal)
        inner join jsonb_array_elements(source.value -> 'columns') as now (value)
            on coalesce(now.value -> 'number' = own.value -> 'number', now.value -> 'name' = own.value -> 'name')
        cross join lateral (select now.value -> 'name' <> own.value -> 'name' as is_renamed) as compared
        cross join lateral (
            select now.value - 'name' - 'number' as now, own.value - 'name' - 'number' as own
        ) as plain
        where
            (not is_renamed or may_rename and not own.value ? 'labels')
            and (
                cdc.without_widening(plain.now) = cdc.without_widening(plain.own)
                or plain.now - 'type' - 'exact' = plain.own - 'type' - 'exact'
                and (own.value ->> 'type', now.value ->> 'type') in (
                    ('int2', 'int4'), ('int2', 'int8'), ('int4', 'int8'), ('varchar', 'text')
                )
            )
    ) as columns;
    return case
        when
            has_other
            -- Of these PostgreSQL has another one for each type of integer.
            and query !~* '<<|>>|\m(to_hex|to_bin|to_oct|bit|varbit|oid|char|int[248]send)\M'
            and cdc.compile_query(query, known, options)
            = cdc.compile_query(registered.reading ->> 'text', former, registered.reading -> 'options')
            then renamed
    end;
exception
    -- It is another query then.
    when others then
        return null;
end
$$;
