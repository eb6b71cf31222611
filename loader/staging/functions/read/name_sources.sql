-- A query with its inputs under names of ours, waltally_source_1, 2, ..., each under its own name as an alias where the
-- query gives it none. A table of the source has its ordinal in `inputs` wherever it stands; a model has another number
-- each time it is named. `numbered` are the inputs by these numbers. Only code is changed, no text and no comment.
create or replace function cdc.name_sources(query text, inputs jsonb, out named text, out numbered jsonb)
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    tables constant jsonb := (
        select coalesce(jsonb_agg(cdc.known_columns(value) order by ordinal), '[]')
        from jsonb_array_elements(inputs) with ordinality as one (value, ordinal)
        where not value ? 'model'
    );
    tokens text[];
    -- The positions of what is code in `tokens`.
    positions integer[];
    code text[];
    -- Without quotation marks: dbt may write a name with and its relation_name without them.
    bare text[];
    found record;
    alias text;
    after text;
begin
    perform cdc.refuse_unread(query, inputs);
    tokens := array(select one.token from cdc.scan(query) as one order by one.ordinal);
    select
        array_agg(one.ordinal order by one.ordinal), array_agg(one.token order by one.ordinal),
        array_agg(btrim(one.token, '"') order by one.ordinal)
    into positions, code, bare
    from unnest(tokens) with ordinality as one (token, ordinal)
    where one.token !~ $re$^(\s|--|/\*)$re$;
    numbered := tables;
    for found in
        select
            starts.ordinal,
            input.value,
            cardinality(own.relation) as size,
            case when input.value ? 'model' then jsonb_array_length(tables) + row_number() over (
                partition by input.value ? 'model' order by starts.ordinal
            ) else (
                select one.ordinal from jsonb_array_elements(tables) with ordinality as one (value, ordinal)
                where one.value -> 'table' = input.value -> 'table'
            ) end as number
        from jsonb_array_elements(inputs) as input (value)
        cross join lateral (
            select array(select btrim(part.token, '"') from cdc.scan(input.value ->> 'relation') as part order by part.ordinal) as relation
        ) as own
        inner join unnest(bare) with ordinality as starts (token, ordinal) on starts.token = own.relation[1]
        where bare[starts.ordinal:starts.ordinal + cardinality(own.relation) - 1] = own.relation
        order by starts.ordinal
    loop
        if found.value ? 'model' then
            numbered := numbered || found.value;
        end if;
        alias := quote_ident(found.value ->> 'name');
        after := lower(code[found.ordinal + found.size]);
        tokens[positions[found.ordinal]] := case
            -- A column by its table's name.
            when after = '.' then alias
            when after ~ '^"' or after = 'as' or after ~ '^[[:alpha:]_]' and not exists (
                select from pg_get_keywords() as known where known.word = after and known.catcode in ('R', 'T')
            ) then format('pg_temp.waltally_source_%s', found.number)
            else format('pg_temp.waltally_source_%s as %s', found.number, alias)
        end;
        for position in found.ordinal + 1..found.ordinal + found.size - 1 loop
            tokens[positions[position]] := '';
        end loop;
    end loop;
    named := array_to_string(tokens, '');
end
$$;
