-- Refuse a query that reads sources beside models.
create or replace function cdc.refuse_mixture(inputs jsonb) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    tables constant text := (select string_agg(value ->> 'table', ', ') from jsonb_array_elements(inputs) where value ? 'table');
begin
    raise exception 'The query reads % beside models, which change at other moments.', tables
        using errcode = 'WL003', hint = format(
            'Instead: a rows model of it with the columns that you need (`select id, name from {{ source(...) }}`), and that by ref(): %s.', tables
        );
end
$$;
