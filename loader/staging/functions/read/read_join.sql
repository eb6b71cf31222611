-- read_joins for a part of a query's FROM.
create or replace function cdc.read_join(
    part jsonb, query jsonb, ctes jsonb, input text,
    out terms jsonb, out equal jsonb, out nullable jsonb, out plain jsonb
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    entry jsonb;
    side record;
    left_terms jsonb;
    right_terms jsonb := jsonb '[[]]';
    right_model jsonb;
    found_columns jsonb;
    is_left boolean;
begin
    terms := '[[]]';
    equal := '[]';
    nullable := '{}';
    plain := '[]';
    if part ->> '_' in ('FROMEXPR', 'JOINEXPR') then
        for entry in
            select value from jsonb_array_elements(
                case part ->> '_' when 'FROMEXPR' then nullif(part -> 'fromlist', 'null') else jsonb_build_array(part -> 'larg', part -> 'rarg') end
            )
        loop
            side := cdc.read_join(entry, query, ctes, input);
            left_terms := terms;
            right_terms := side.terms;
            terms := (
                select jsonb_agg(one.value || other.value)
                from jsonb_array_elements(left_terms) as one cross join jsonb_array_elements(right_terms) as other
            );
            equal := equal || side.equal;
            nullable := nullable || side.nullable;
            plain := plain || side.plain;
        end loop;
        is_left := part ->> '_' = 'JOINEXPR' and part ->> 'jointype' <> '0' and right_terms <> '[[]]';
        if is_left and exists (select from jsonb_array_elements(left_terms) as term where term.value = '[]') then
            raise exception 'A % on the right of a LEFT JOIN: constants would be counted once more for each change.', input using
                errcode = 'WL003', hint = format('Put the %s on the left, or leave the constants without a row to the query that reads.', input);
        elsif input = 'table' then
            return;
        end if;
        found_columns := cdc.equal_columns(part -> 'quals', query, ctes);
        equal := equal || found_columns;
        if not is_left then
            return;
        elsif (select count(distinct one.value) from jsonb_array_elements(right_terms) as term cross join jsonb_array_elements(term.value) as one) > 1 then
            raise exception 'The right side of a LEFT JOIN is made of several models.'
                using errcode = 'WL003', hint = 'Join them one after the other by LEFT JOIN, or write a fact over them and join that.';
        end if;
        right_model := right_terms -> 0 -> 0;
        found_columns := cdc.left_links(found_columns, part -> 'quals', query, ctes, right_model, part -> 'rarg');
        if found_columns is null then
            raise exception 'A LEFT JOIN whose ON compares no column of its right side by =.'
                using errcode = 'WL003', hint = 'Compare a column of the right side by = with something of the left one, or write an inner join.';
        end if;
        nullable := nullable || jsonb_build_object(right_model #>> '{}', found_columns);
        if cdc.reads_two_tables(part -> 'quals', query, right_model, found_columns #> '{0,1}') then
            plain := plain || right_model;
        end if;
        return;
    end if;
    entry := query -> 'rtable' -> ((part ->> 'rtindex')::integer - 1);
    case entry ->> 'rtekind'
        when '0' then terms := jsonb_build_array(jsonb_build_array(cdc.stub_number(entry ->> 'relid')));
        when '1' then select * into terms, equal, nullable, plain from cdc.read_joins(entry -> 'subquery', input, ctes);
        when '6' then
            select * into terms, equal, nullable, plain
            from cdc.read_joins(ctes -> (entry ->> 'ctename') -> 'query', input, ctes -> (entry ->> 'ctename') -> 'ctes');
        else null;
    end case;
end
$$;
