-- Make the reader of a slot's models that are queries again where they need something else of the log, and return
-- what it gives. install_model has locked it.
create or replace function cdc.make_reader(slot text) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    signature constant text := cdc.reader_name(slot);
    given jsonb;
    needed jsonb;
begin
    select jsonb_agg(
        jsonb_build_array(
            of_table.name,
            of_table.columns,
            of_table.told_apart,
            of_table.schema_name,
            substr(of_table.name, length(of_table.schema_name) + 2)
        ) || case when of_table.renamed is null then '[]' else jsonb_build_array(of_table.renamed) end
        order by of_table.name
    )
    into needed
    from (
        select
            need.value ->> 0 as name,
            need.value ->> 3 as schema_name,
            case
                when bool_or(need.value ->> 2 = 'each') then '"each"'
                else to_jsonb(bool_or(need.value -> 2 = 'true'))
            end as told_apart,
            coalesce(jsonb_agg(distinct own.value) filter (where own.value <> 'null'), '[]') as columns,
            jsonb_object_agg(renamed.key, renamed.value) filter (where renamed.key is not null) as renamed
        from cdc.installed_model as installed
        cross join lateral jsonb_array_elements(
            installed.needs || coalesce(installed.former -> 'needs', '[]')
        ) as need (value)
        left join lateral jsonb_array_elements(need.value -> 1) as own (value) on true
        left join lateral jsonb_each(need.value -> 5) as renamed on true
        where installed.slot_name = make_reader.slot
        group by 1, 2
    ) as of_table;
    select reader.gives into given from cdc.batch_reader as reader where reader.slot_name = slot;
    if needed is distinct from given or to_regprocedure(signature) is null then
        execute cdc.write_reader(left(signature, strpos(signature, '(text') - 1), needed);
        execute format('comment on function %s is %L', signature, 'waltally calls it; setup has made it');
        execute format('revoke execute on function %s from public', signature);
    end if;
    -- Under the lock, which another thread of dbt may wait for.
    perform cdc.note_functions(signature, array[signature]);
    insert into cdc.batch_reader as stored (slot_name, gives) values (slot, needed)
    on conflict on constraint batch_reader_pkey do update set gives = excluded.gives
    where stored.gives <> excluded.gives;
    return needed;
end
$$;
