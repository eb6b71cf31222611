-- An expression of a roll-up's select over the columns of the model below; null where one is computed on the way. From
-- PostgreSQL 16 on a view over one table prints a column without the table's name: `later` for `made.later`.
create or replace function cdc.in_base(compiled jsonb, expression text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    with tokens as (
        select
            scanned.ordinal,
            scanned.token,
            lead(scanned.token) over near as next_token,
            lead(scanned.token, 2) over near as column_token,
            lag(scanned.token) over near as former_token,
            lag(scanned.token, 2) over near as alias_token,
            string_agg(scanned.token, '') over (near rows between 2 preceding and 1 preceding) as before
        from cdc.scan(expression) as scanned
        window near as (order by scanned.ordinal)
    ),

    columns as (
        select
            tokens.*,
            case
                when tokens.token !~ '^["[:alpha:]_]' then null
                when tokens.next_token = '.' then tokens.token || '.' || tokens.column_token
                -- No type; what has other words is never the expression of an index.
                when compiled #> '{select,base}' ? tokens.token and tokens.next_token is distinct from '('
                    and coalesce(tokens.before, '') !~ '(::|\.)$'
                    then tokens.token
            end as column_name,
            tokens.token = '.' and tokens.former_token ~ '^["[:alpha:]_]'
            or tokens.former_token = '.' and tokens.alias_token ~ '^["[:alpha:]_]' as is_part
        from tokens
    ),

    named as (
        select columns.*, compiled #>> array['select', 'base', columns.column_name] as base_name from columns
    )

    select case when bool_and(named.column_name is null or named.base_name is not null) then string_agg(
        case
            when named.column_name is not null then quote_ident(named.base_name)
            when named.is_part then ''
            else named.token
        end, '' order by named.ordinal
    ) end
    from named
$$;
