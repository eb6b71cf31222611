-- SQL: what a roll-up's groups that changed rows touch have now: sums and counts by what is added, the other
-- aggregates by asking the model below again.
create or replace function cdc.write_roll_up(compiled jsonb, terms text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    keys constant text := cdc.write_names(compiled -> 'keys', '%I, ', '');
    -- What is added up; among it how many different values there are.
    added constant jsonb := jsonb_path_query_array(
        compiled, '$.state_columns[*] ? (!exists (@.again) || @.again like_regex "^count\\(DISTINCT\\s")'
    );
begin
    return cdc.fill(
$template$select {keys}{all}
from (
    select {keys}{added}
    from (
        select {keys}{linear} from (
            {terms}
        ) as term
        {values}
    ) as part
    {grouped}
) as waltally_touched$template$,
        jsonb_build_object(
            'keys', keys,
            'grouped', case when keys = '' then 'having count(*) > 0' else 'group by ' || rtrim(keys, ', ') end,
            'terms', terms,
            'all', (
                select string_agg(
                    case
                        when not added @> jsonb_build_array(value)
                            then format(e'\n    (%s) as %I', cdc.write_again(compiled, value ->> 'again', value ->> 'value_type'), value ->> 'name')
                        else format('waltally_touched.%I', value ->> 'name')
                    end, ', ' order by ordinal
                )
                from jsonb_array_elements(compiled -> 'state_columns') with ordinality as one (value, ordinal)
            ),
            'added', cdc.write_names(added, 'sum(%1$I) as %1$I'),
            'linear', (
                select string_agg(
                    format(case when value ? 'again' then '0 as %1$I' else '%1$I' end, value ->> 'name'), ', ' order by ordinal
                )
                from jsonb_array_elements(added) with ordinality as one (value, ordinal)
            ),
            'values', coalesce((
                select string_agg(format(
                    e'union all\nselect %s%s from (%s) as counted',
                    keys,
                    (
                        select string_agg(case when other.ordinal = one.ordinal
                            then '(waltally_now > 0)::integer - (waltally_now - waltally_change > 0)::integer' else '0' end, ', ' order by other.ordinal)
                        from jsonb_array_elements(added) with ordinality as other (value, ordinal)
                    ),
                    cdc.write_value_counts(compiled, one.value ->> 'again', one.value ->> 'value_type')
                ), e'\n' order by one.ordinal)
                from jsonb_array_elements(added) with ordinality as one (value, ordinal)
                where one.value ? 'again'
            ), '')
        )
    );
end
$$;
