-- The same of a part of a query's FROM, whose tables are in `entries`.
create or replace function cdc.join_width(part jsonb, entries jsonb, ctes jsonb) returns integer
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    entry jsonb;
    width integer := 0;
    left_width integer;
begin
    case part ->> '_'
        when 'FROMEXPR' then
            for entry in select value from jsonb_array_elements(nullif(part -> 'fromlist', 'null')) loop
                width := width + cdc.join_width(entry, entries, ctes);
            end loop;
        when 'JOINEXPR' then
            width := cdc.join_width(part -> 'rarg', entries, ctes);
            left_width := cdc.join_width(part -> 'larg', entries, ctes);
            if width > 0 and left_width = 0 and part ->> 'jointype' <> '0' then
                raise exception 'A table on the right of a LEFT JOIN: constants would be counted once more for each change.'
                    using errcode = 'WL003', hint = 'Put the table on the left, or leave the constants without a row to the query that reads.';
            end if;
            width := width + left_width;
        else
            entry := entries -> ((part ->> 'rtindex')::integer - 1);
            case entry ->> 'rtekind'
                when '0' then width := 1;
                when '1' then width := cdc.source_width(entry -> 'subquery', ctes);
                when '6' then
                    width := cdc.source_width(
                        ctes -> (entry ->> 'ctename') -> 'query', ctes -> (entry ->> 'ctename') -> 'ctes'
                    );
                else null;
            end case;
    end case;
    return width;
end
$$;
