-- What find_bad_images has found, each new row with its message as the problem. An old row that cannot be taken was
-- never counted.
create or replace function cdc.name_bad_rows(bad cdc.change[], messages text[]) returns cdc.change[]
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    return array(
        select row(
            bad[place].table_no, bad[place].action, bad[place].commit_lsn, bad[place].ordinal, bad[place].is_cancelled, messages[place],
            bad[place].old_values, bad[place].new_values, bad[place].change_count, bad[place].last_lsn, null
        )::cdc.change
        from generate_subscripts(bad, 1) as place
        where bad[place].action = 'I'
    );
end
$$;
