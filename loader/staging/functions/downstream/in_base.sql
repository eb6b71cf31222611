-- An expression of a roll-up's select over the columns of the model below; null where one is computed on the way.
create or replace function cdc.in_base(compiled jsonb, expression text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    with tokens as (
        select
            scanned.place,
            scanned.token,
            lead(scanned.token) over (order by scanned.place) as next_token,
            lead(scanned.token, 2) over (order by scanned.place) as column_token,
            lag(scanned.token) over (order by scanned.place) as former_token,
            lag(scanned.token, 2) over (order by scanned.place) as alias_token
        from cdc.scan(expression) as scanned
    ),

    named as (
        select
            tokens.*,
            compiled #>> array['select', 'base', tokens.token || '.' || tokens.column_token] as base_name,
            tokens.next_token = '.' and tokens.token ~ '^["[:alpha:]_]' as is_alias,
            tokens.token = '.' and tokens.former_token ~ '^["[:alpha:]_]'
            or tokens.former_token = '.' and tokens.alias_token ~ '^["[:alpha:]_]' as is_part
        from tokens
    )

    select case when bool_and(named.is_alias is not true or named.base_name is not null) then string_agg(
        case
            when named.is_alias then (
                select format(case when one.value ->> 'type' ~ '^(text|character varying|bpchar)$' then '(%I collate "default")' else '%I' end, named.base_name)
                from jsonb_array_elements(compiled #> '{inputs,0,columns}') as one (value)
                where one.value ->> 'name' = named.base_name
            )
            when named.is_part then ''
            else named.token
        end, '' order by named.place
    ) end
    from named
$$;
