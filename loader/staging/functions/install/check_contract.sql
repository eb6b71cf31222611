-- Compare the columns that a query gives with those of dbt's contract.
create or replace function cdc.check_contract(compiled jsonb, contract jsonb) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    differences text;
begin
    select string_agg(format('%s is %s, and the contract says %s', name, coalesce(own, 'no column of the query'), coalesce(declared, 'nothing of it')), '; ')
    into differences
    from (
        select
            coalesce(shown.name, declared.key) as name,
            shown.type as own,
            declared.value as declared
        from (
            select one.name, one.type from cdc.list_columns(compiled) as one where one.is_shown
        ) as shown
        full join jsonb_each_text(contract) as declared on declared.key = shown.name
    ) as both_sides
    where format_type(to_regtype(own), null) is distinct from format_type(to_regtype(declared), null);
    if contract is not null and differences is not null then
        raise exception '%', differences using errcode = 'WL003', hint = 'Correct the model''s YAML, or cast the column in the query.';
    end if;
end
$$;
