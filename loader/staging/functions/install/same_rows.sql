-- Whether a model whose query or whose tables have changed keeps its rows: the query means what it meant, and all that
-- changed of the columns that it reads is that some have a wider type. `compiled` is what it is compiled to now.
create or replace function cdc.same_rows(
    slot text, model text, query text, sources jsonb, options jsonb, compiled jsonb
) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    registered record;
    known jsonb;
    has_wider boolean;
begin
    select own.* into registered from cdc.registered_reading(slot, model) as own;
    -- What was left out because it did not fit may fit now.
    if registered.reading is null or registered.declaration = compiled or registered.lacks_changes then
        return false;
    end if;
    -- The former columns with the types of now.
    select
        jsonb_agg(former.value || jsonb_build_object('columns', columns.list)),
        bool_or(columns.has_wider)
    into known, has_wider
    from jsonb_array_elements(registered.reading -> 'sources') as former (value)
    inner join jsonb_array_elements(sources) as source (value) on source.value ->> 'table' = former.value ->> 'table'
    cross join lateral (
        select
            jsonb_agg(now.value order by own.place) as list,
            bool_or(now.value <> own.value) as has_wider
        from jsonb_array_elements(former.value -> 'columns') with ordinality as own (value, place)
        inner join jsonb_array_elements(source.value -> 'columns') as now (value)
            on now.value -> 'name' = own.value -> 'name'
        where
            cdc.without_widening(now.value) = cdc.without_widening(own.value)
            or now.value - 'type' - 'exact' = own.value - 'type' - 'exact'
            and (own.value ->> 'type', now.value ->> 'type') in (
                ('int2', 'int4'), ('int2', 'int8'), ('int4', 'int8'), ('varchar', 'text')
            )
    ) as columns;
    return has_wider
        -- Of these PostgreSQL has another one for each type of integer.
        and query !~* '<<|>>|\m(to_hex|to_bin|to_oct|bit|varbit|oid|char|int[248]send)\M'
        and cdc.compile_query(query, known, options) = cdc.compile_query(registered.reading ->> 'text', known, registered.reading -> 'options');
exception
    -- It is another query then.
    when others then
        return false;
end
$$;
