-- What changes in their order leave of rows, whose old images need only carry the key: for each key that they name a
-- delete, and an insert where it has a row now. `key_nos` are the ordinals of the key in an image.
--
-- A large value that an update leaves out is that of an earlier change to the row. Where none of them has it, the
-- insert has its ordinal in `missing` and, as old values, the first image of the row, under whose key it was before.
create or replace function cdc.last_rows(changes cdc.change[], key_nos integer[]) returns cdc.change[]
language plpgsql immutable
-- A routine has switched off joins for its table's sake; a plan of many rows is not worth compiling.
set search_path = pg_catalog, pg_temp set enable_hashjoin = on set enable_mergejoin = on set jit = off
as $$
#variable_conflict use_column
begin
    if exists (select from unnest(changes) as change where change.ordinal is null) then
        raise exception 'the changes of rows come without their order'
            using errcode = 'WL006', hint = 'Run `loader setup`, then `dbt build`.';
    end if;
    return (
        with recursive numbered as materialized (
            select
                change.*,
                array(select change.old_values[key_no] from unnest(key_nos) as key_no) as old_key,
                array(select change.new_values[key_no] from unnest(key_nos) as key_no) as new_key,
                array(select -value_no from unnest(change.missing) as value_no where value_no < 0) as lacking
            from unnest(changes) with ordinality as change (
                table_no, action, commit_lsn, ordinal, is_cancelled, problem, old_values, new_values, change_count, last_lsn,
                missing, number
            )
        ),

        -- When a key gets a row, or another one, and when its row leaves it.
        moments as (
            select
                number, is_entry,
                not is_entry or action = 'U' and old_key = new_key as has_before,
                -- The change that gave the key the row that it has before.
                lag(number) over in_order as former,
                lead(number) over in_order is null as is_last
            from numbered
            cross join (values (true), (false)) as side (is_entry)
            where action = case when is_entry then 'I' else 'D' end or action = 'U' and (is_entry or old_key <> new_key)
            window in_order as (
                partition by case when is_entry then new_key else old_key end collate "C" order by commit_lsn, ordinal, is_entry
            )
        ),

        -- Back through the life of a row that lacks values, until all are found or no change is left.
        life as (
            select number, number as first_number, 0 as age, new_values as row_values, lacking
            from numbered
            where lacking <> '{}' and number in (select number from moments where is_last and is_entry)
            union all
            select
                life.number, former.number, life.age + 1,
                array(
                    select case when value_no = any (life.lacking) then former.new_values[value_no] else value end
                    from unnest(life.row_values) with ordinality as one (value, value_no)
                ),
                array(select unnest(life.lacking) intersect select unnest(former.lacking))
            from life
            inner join moments on moments.number = life.first_number and moments.has_before
            inner join numbered as former on former.number = moments.former and former.action <> 'D'
            where life.lacking <> '{}'
        ),

        completed as (
            select distinct on (life.number) life.number, life.row_values, nullif(life.lacking, '{}') as lacking, first.old_values
            from life
            inner join numbered as first on first.number = life.first_number
            order by life.number, life.age desc
        )

        select coalesce(array_agg(row(
            numbered.table_no, side.action, numbered.commit_lsn, numbered.ordinal, false, null,
            case when side.action = 'I' then completed.old_values when moments.is_entry then numbered.new_values else numbered.old_values end,
            case when side.action = 'I' then coalesce(completed.row_values, numbered.new_values) end,
            1, numbered.last_lsn, case when side.action = 'I' then completed.lacking end
        )::cdc.change), '{}')
        from moments
        inner join numbered on numbered.number = moments.number
        cross join (values ('D'), ('I')) as side (action)
        left join completed on completed.number = moments.number
        where moments.is_last and (side.action = 'D' or moments.is_entry)
    );
end
$$;
