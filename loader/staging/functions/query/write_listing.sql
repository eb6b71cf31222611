-- SQL: a step of a rebuild: list again what could not be counted, beginning with the rows that the seed could not
-- count, one line for each source and reason.
create or replace function cdc.write_listing(listed text, model_key text, model_name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(
        $template$delete from %1$s as old where old.model_name = %2$L and old.slot_name = $2;
        insert into %1$s (
            model_name, slot_name, commit_lsn, ordinal, xid, committed_at, source_table, action, reason, payload
        )
        select
            %2$L,
            baseline.slot_name,
            baseline.snapshot_lsn,
            -row_number() over (order by rejected.part, rejected.reason),
            0,
            baseline.counted_at,
            rejected.part,
            'baseline',
            rejected.reason,
            jsonb_build_object('row_count', rejected.row_count, 'example', rejected.example)::text
        from cdc.baseline_rejection as rejected
        inner join cdc.baseline as baseline
            on baseline.slot_name = rejected.slot_name and baseline.declared_name = rejected.declared_name
        where baseline.slot_name = $2 and baseline.declared_name = %3$L;$template$,
        listed, model_key, model_name
    )
$$;
