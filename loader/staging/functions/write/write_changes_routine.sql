-- SQL: the routine that writes down what a batch changed in a model, as that of a model over models is called: step
-- add with rows before and after. step fill: more has changed than it was given, and one row without old and new
-- says to read the model anew. So does what is left of rows that are older than they are kept. step prune: that alone.
-- Who writes has the lock of the changes until it commits, so the numbers are in the order of the commits.
create or replace function cdc.write_changes_routine(declared jsonb, routine text, relation text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select cdc.fill(
$template$
create or replace function {routine}(
    step text, input text, former anyarray, present anyarray, changed_rows anycompatiblearray,
    out before anycompatiblearray, out after anycompatiblearray
)
language plpgsql security definer {pins}
as $routine$
declare
    cutoff constant timestamptz := now() - {kept}::interval;
    expired bigint;
begin
    lock table {relation} in row exclusive mode nowait;
    if $1 = 'add' then
        insert into {relation} (position, old, new)
        select current_setting('waltally.position', true)::pg_lsn, image.old, image.new
        from (select unnest($3) as former, unnest($4) as present) as pair
        cross join lateral (
            select
                case when pair.former is distinct from null then (select to_jsonb(shown) from (select {former}) as shown) end as old,
                case when pair.present is distinct from null then (select to_jsonb(shown) from (select {present}) as shown) end as new
        ) as image
        -- The model is named, so that a session plans again when its columns change.
        where image.old is distinct from image.new and (true or exists (select from {model}));
    elsif $1 = 'fill' then
        insert into {relation} (position) values (current_setting('waltally.position', true)::pg_lsn);
    end if;
    -- The oldest says of those before it that they are gone.
    if (select changes.changed_at from {relation} as changes order by changes.number limit 1 offset 1) < cutoff then
        expired := (
            select max(oldest.number)
            from (select * from {relation} as changes order by changes.number limit 100000) as oldest
            where oldest.changed_at < cutoff
        );
        delete from {relation} as changes where changes.number < expired;
        update {relation} as changes set old = null, new = null where changes.number = expired;
    end if;
end
$routine$
$template$,
        jsonb_build_object(
            'routine', routine,
            'pins', cdc.routine_pins(declared),
            'relation', relation,
            'kept', quote_literal(declared ->> 'changes'),
            'model', format('%I.%I', declared #>> '{inputs,0,schema}', declared #>> '{inputs,0,name}'),
            'former', cdc.shown_values(declared #> '{inputs,0,columns}', '(pair.former)'),
            'present', cdc.shown_values(declared #> '{inputs,0,columns}', '(pair.present)')
        )
    )
$$;
