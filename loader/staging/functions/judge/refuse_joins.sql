-- Refuse a query over tables whose rows are each made of two rows that change, or of none.
create or replace function cdc.refuse_joins(tree jsonb, needed jsonb, sources jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    -- Of how many rows of sources a row of the result is made.
    width constant integer := (
        select max(jsonb_array_length(term.value))
        from cdc.read_joins(tree, 'table') as joins
        cross join jsonb_array_elements(joins.terms) as term
    );
begin
    if width > 1 then
        perform cdc.refuse_sources('A join of two tables that change.', needed, sources);
    elsif width = 0 then
        raise exception 'The query reads no source.' using errcode = 'WL003', hint = 'Name a table by source(), or a model by ref().';
    end if;
end
$$;
