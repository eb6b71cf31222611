-- Refuse to group by a value whose type has no equality that is known here, or to make an id of one that may be spelled
-- in several ways. `types` has the type of each key by its name.
create or replace function cdc.refuse_keys(keys jsonb, types jsonb, has_id boolean) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    refused record;
begin
    -- An id is made of the texts of its key, of which a numeric alone has one for equal values.
    select value ->> 'name' as name, types ->> (value ->> 'name') as type, own.is_plain or own.has_equals as is_key into refused
    from jsonb_array_elements(keys)
    cross join lateral (
        select
            types ->> (value ->> 'name') ~ (
                '^(boolean|smallint|integer|bigint|numeric|text|character varying|character|bpchar|"char"|name|uuid|date|bytea|inet|cidr|'
                'macaddr|macaddr8|time without time zone|timestamp without time zone|timestamp with time zone|pg_lsn)$'
            ) as is_plain,
            types ->> (value ->> 'name') ~ (
                '^(real|double precision|interval|time with time zone|jsonb|(int4|int8|num|date|ts|tstz)(multi)?range'
                '|(boolean|smallint|integer|bigint|numeric|text|uuid|date|(time|timestamp) with(out)? time zone|interval|jsonb)\[\])$'
            ) as has_equals
    ) as own
    where not own.is_plain and (not own.has_equals or has_id)
    limit 1;
    if found then
        raise exception '%: %', refused.name, format(
            case when refused.is_key then 'a surrogate key of values of %s, which has several spellings.' else 'a %s has no one spelling to group by.' end,
            refused.type
        ) using errcode = 'WL003', hint = format('Instead: its text, `(%s)::text`.', refused.name);
    end if;
end
$$;
