-- Write down what a model over models failed with, and when it is tried again: ever more seldom; without a message, as
-- somebody has locked it, a second later. Where somebody else writes its row at this moment, nothing is awaited. One
-- whose schema was dropped is forgotten if its project has the model in another one.
create or replace function cdc.note_dependent_failure(model text, message text, code text default null) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform from cdc.dependent_model as own where own.relation = model for no key update skip locked;
    if not found then
        return;
    end if;
    delete from cdc.dependent_model as own
    using cdc.dependent_model as other
    where
        own.relation = model
        and other.project = own.project and other.model_name = own.model_name and other.relation <> own.relation
        and not cdc.is_table(own.relation);
    if found then
        delete from cdc.to_fill as asked where asked.relation = model;
    else
        update cdc.dependent_model as own
        set
            error = message,
            remedy = case
                when code = '22003' then 'cast what is summed to numeric in the query (`sum(x::numeric)`), or its total to a wider type, then `dbt build`'
                when code ~ '^(22|21|0A|54)' then 'compute it in the rows model below, where a row that it cannot take is listed in '
                    'rejected_changes, then `dbt build`'
                when code like '53%' then 'give the target''s server more of it (disk, memory, `temp_file_limit`); then it goes on by itself'
                else '`dbt build` tries it at once'
            end,
            failures = case when message is null then 0 else failures + 1 end,
            retry_at = clock_timestamp() + make_interval(secs => case when message is null then 1 else least(60, 2 ^ least(failures, 10)) end)
        where own.relation = model;
    end if;
end
$$;
