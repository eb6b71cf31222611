-- What a query joins. Its inputs have the numbers of name_sources: each is a `model`, or a `table`, of which only the
-- terms are read.
--
-- terms     by row of the result the inputs that it can be made of: [[1, 2], [3]]. Arms of UNION ALL never meet.
-- equal     [[1, "customer_id", 2, "id"]]: columns that are equal in a join
-- nullable  by the model on the right of a LEFT JOIN the columns that find it: {"2": [["id", 1, "customer_id"]]}
-- plain     [2]: those of which ON reads nothing but columns of them and of the model that is named there
--
-- `ctes` are those that the query sees, by their names, each with those that it sees itself.
create or replace function cdc.read_joins(
    query jsonb, input text, ctes jsonb default '{}',
    out terms jsonb, out equal jsonb, out nullable jsonb, out plain jsonb
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    own_ctes constant jsonb := cdc.visible_ctes(query, ctes);
    entry jsonb;
    part record;
begin
    if query -> 'setOperations' = 'null' then
        select * into terms, equal, nullable, plain from cdc.read_join(query -> 'jointree', query, own_ctes, input);
        return;
    end if;
    terms := '[]';
    equal := '[]';
    nullable := '{}';
    plain := '[]';
    for entry in select value from jsonb_array_elements(query -> 'rtable') where value ->> 'rtekind' = '1' loop
        part := cdc.read_joins(entry -> 'subquery', input, own_ctes);
        if exists (select from jsonb_array_elements(part.terms) as term where term.value = '[]') then
            raise exception 'An arm of UNION ALL reads no %: its rows would be counted in each batch.', input
                using errcode = 'WL003', hint = 'Leave that arm to a view or to the query that reads the model.';
        end if;
        terms := terms || part.terms;
        equal := equal || part.equal;
        nullable := nullable || part.nullable;
        plain := plain || part.plain;
    end loop;
end
$$;
