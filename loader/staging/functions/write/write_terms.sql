-- SQL: what the changed rows of a model add to a query that names it in these places, as selects of a UNION ALL: the
-- query of the new rows less the query of the old ones, with all other models as they are. Of several places each
-- choice has the changed rows; the signs make up for what they count twice.
create or replace function cdc.write_terms(compiled jsonb, numbers integer[]) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    written text[] := array[]::text[];
    signs constant text := 'select given.sign from (values (1), (-1)) as given (sign) '
        'where exists (select from changed where changed.waltally_sign = given.sign offset 0)';
    chosen integer[];
begin
    for subset in 1..(1 << cardinality(numbers)) - 1 loop
        chosen := array(select numbers[n] from generate_subscripts(numbers, 1) as n where subset >> (n - 1) & 1 = 1 order by n);
        continue when cdc.met_inputs(compiled, chosen, false) = '{}';
        written := array_append(written, cdc.write_term(
            compiled,
            (
                select format(
                    '(select %s%s as sign, %s from %s)',
                    string_agg(format('s%s.sign', n), ' * ' order by n), case when cardinality(chosen) % 2 = 0 then ' * -1' else '' end,
                    string_agg(format('s%1$s.sign as sign_%1$s', n), ', ' order by n),
                    string_agg(format('(%s) as s%s', signs, n), ' cross join ' order by n)
                )
                from unnest(chosen) as n
            ),
            cdc.write_inputs(compiled, (
                select jsonb_object_agg(n, format(
                    case cardinality(chosen)
                        when 1 then 'select %s from changed where waltally_sign = signs.sign_%s'
                        -- The planner takes them for three rows; of thirty it makes a hash join, not a nested loop.
                        else 'select %s from changed where (waltally_sign > 0) = (signs.sign_%s > 0)'
                    end,
                    cdc.changed_columns(compiled -> 'inputs' -> (n - 1)), n
                ))
                from unnest(chosen) as n
            ), cdc.met_inputs(compiled, chosen, false))
        ));
    end loop;
    return array_to_string(written, e'\nunion all\n');
end
$$;
