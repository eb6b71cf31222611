-- An expression over totals with waltally_key_1, 2, ... in place of the grouped expressions that stand in it. What is
-- left of columns after that nobody knows: the table of try_totals has none of their names.
create or replace function cdc.name_keys(expression text, keys jsonb) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    tokens constant text[] := array(select one.token from cdc.scan(expression) as one order by one.ordinal);
    -- Blanks differ with the depth at which an expression is printed.
    code constant bigint[] := array(
        select one.ordinal from unnest(tokens) with ordinality as one (token, ordinal) where one.token !~ '^\s' order by one.ordinal
    );
    -- Of each grouped expression, the longest first.
    names constant jsonb := (
        select jsonb_agg(jsonb_build_array(named.number, named.tokens) order by cardinality(named.tokens) desc, named.number)
        from (
            select
                key.number,
                array(
                    select scanned.token from cdc.scan(key.value ->> 'expression') as scanned
                    where scanned.token !~ '^\s' order by scanned.ordinal
                ) as tokens
            from jsonb_array_elements(keys) with ordinality as key (value, number)
            where (key.value ->> 'is_constant')::boolean is not true
        ) as named
    );
    named text := '';
    position integer := 1;
    key record;
begin
    while position <= cardinality(code) loop
        select one.value ->> 0 as number, jsonb_array_length(one.value -> 1) as size into key
        from jsonb_array_elements(names) with ordinality as one (value, rank)
        where
            one.value -> 1 = to_jsonb(array(select tokens[n] from unnest(code[position:position + jsonb_array_length(one.value -> 1) - 1]) as n))
            -- A function, a part of a name, or a type that is called like the column.
            and coalesce(tokens[code[position + jsonb_array_length(one.value -> 1)]], '') not in ('(', '.', '''')
            and coalesce(tokens[code[position - 1]], '') not in ('.', ':')
        order by one.rank
        limit 1;
        named := named || case when position > 1 and code[position] > code[position - 1] + 1 then ' ' else '' end;
        if key.number is null then
            named := named || tokens[code[position]];
            position := position + 1;
        else
            named := named || 'waltally_key_' || key.number::text;
            position := position + key.size;
        end if;
    end loop;
    return named;
end
$$;
