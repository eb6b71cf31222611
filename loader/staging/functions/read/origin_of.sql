-- The model and the column that an expression passes on unchanged: [1, "customer_id"]; null where it is another one.
create or replace function cdc.origin_of(expression jsonb, query jsonb, ctes jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    entry jsonb;
    inner_query jsonb;
    inner_ctes jsonb := ctes;
    ordinal constant integer := (expression ->> 'varattno')::integer - 1;
begin
    if expression ->> '_' = 'RELABELTYPE' then
        return cdc.origin_of(expression -> 'arg', query, ctes);
    elsif expression ->> '_' is distinct from 'VAR' or expression ->> 'varlevelsup' <> '0' then
        return null;
    end if;
    entry := query -> 'rtable' -> ((expression ->> 'varno')::integer - 1);
    case entry ->> 'rtekind'
        when '0' then
            return (
                select jsonb_build_array(cdc.stub_number(entry ->> 'relid'), a.attname)
                from pg_attribute as a where a.attrelid = (entry ->> 'relid')::oid and a.attnum = ordinal + 1
            );
        when '2' then return cdc.origin_of(entry -> 'joinaliasvars' -> ordinal, query, ctes);
        when '1' then inner_query := entry -> 'subquery';
        when '6' then
            inner_query := ctes -> (entry ->> 'ctename') -> 'query';
            inner_ctes := ctes -> (entry ->> 'ctename') -> 'ctes';
        else return null;
    end case;
    if inner_query -> 'setOperations' <> 'null' then
        return null;
    end if;
    return cdc.origin_of(inner_query -> 'targetList' -> ordinal -> 'expr', inner_query, cdc.visible_ctes(inner_query, inner_ctes));
end
$$;
