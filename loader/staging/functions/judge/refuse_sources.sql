-- Refuse a query that joins sources, or reads them beside models, with the rows models to make: their columns, and
-- how many bytes a row of these takes beside its values of no fixed length. `needed` and `numbered` as needed_sources
-- and name_sources give them.
create or replace function cdc.refuse_sources(reason text, needed jsonb, numbered jsonb) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    models text;
begin
    with columns as (
        select
            source.ordinal,
            source.value ->> 'table' as table_name,
            own.name,
            row_number() over (partition by source.ordinal order by not own.is_key, own.ordinal) as number,
            (select t.typlen from pg_type as t where t.oid = to_regtype(own.type) and t.typlen > 0) as size
        from jsonb_array_elements(needed) with ordinality as source (value, ordinal)
        cross join lateral (
            select
                listed.value ->> 'name' as name,
                listed.value ->> 'type' as type,
                listed.ordinal,
                coalesce(numbered -> (source.ordinal::integer - 1) -> 'key' ? (listed.value ->> 'name'), false) as is_key,
                source.value -> 'columns' @> jsonb_build_array(jsonb_build_object('name', listed.value -> 'name', 'is_needed', true)) as is_needed
            from jsonb_array_elements(numbered -> (source.ordinal::integer - 1) -> 'columns') with ordinality as listed (value, ordinal)
        ) as own
        where source.value ? 'table' and (own.is_key or own.is_needed)
    )

    select string_agg(
        format(
            'of %s `select %s from %s source(...) %s`, %s bytes a row%s',
            model.table_name, model.names, repeat('{', 2), repeat('}', 2), model.size, model.others
        ),
        '; ' order by model.ordinal
    )
    into models
    from (
        select
            ordinal,
            table_name,
            string_agg(quote_ident(name), ', ' order by number) as names,
            -- A row's header and its place in the page.
            28 + coalesce(sum(size), 0) as size,
            coalesce(' and the values of ' || string_agg(quote_ident(name), ', ' order by number) filter (where size is null), '') as others
        from columns
        group by ordinal, table_name
    ) as model;
    raise exception '%', reason using errcode = 'WL003', hint = 'Instead: the query over models by ref(), with a rows model of each source' || coalesce(': ' || models, '') || '.';
end
$$;
