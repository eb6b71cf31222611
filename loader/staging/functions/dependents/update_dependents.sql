-- Bring the rows that a model has changed to its dependents, and from each to its own. The highest comes first:
-- what is below it holds, where the same rows are under both, what it held before. What one fails with is written
-- down, and it is filled again: no input fails because of it. `before` and `after` are as write_changed_rows gives
-- them. For one that is being filled it is queued.
create or replace function cdc.update_dependents(model text, before anyarray, after anyarray) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    dependent record;
    target record;
begin
    if coalesce(cardinality(before), 0) = 0 then
        return;
    end if;
    for dependent in
        select own.relation, own.routine, cdc.is_to_be_filled(own.relation) as is_being_filled
        from cdc.dependent_input as input
        inner join cdc.dependent_model as own on own.relation = input.relation
        where input.input_relation = model and cdc.takes_changes(own.relation)
        order by own.level desc, own.relation
    loop
        if cardinality(before) > cdc.changed_rows_limit() then
            perform cdc.ask_to_fill(dependent.relation, format('more rows of %s changed at once than it follows', model));
            continue;
        end if;
        begin
            target := cdc.find_installed(
                dependent.routine, '(text, text, anyarray, anyarray, anycompatiblearray)', array['anycompatiblearray', 'anycompatiblearray']
            );
            if dependent.is_being_filled then
                execute format(
                    'insert into cdc.queued_change (relation, change) select $5, own.change from unnest(('
                    'select made.before from %s(cdc.unless_replaced($1, $6, $7), $2, $3, $4, array[]::jsonb[]) as made'
                    ')) as own (change)', target.name
                )
                using 'queue', model, before, after, dependent.relation, target.oid, target.version;
                continue;
            end if;
            execute format(
                'select from %s(cdc.unless_replaced($1, $6, $7), $2, $3, $4, %s) as made '
                'cross join lateral cdc.update_dependents($5, made.before, made.after)',
                target.name, cdc.no_changed_rows(dependent.relation, target.oid)
            )
            using 'add', model, before, after, dependent.relation, target.oid, target.version;
        exception
            when lock_not_available or deadlock_detected or sqlstate 'WL001' then
                perform cdc.ask_to_fill(dependent.relation, format('it could not be locked: %s', sqlerrm));
            when others then
                perform cdc.ask_to_fill(dependent.relation, sqlerrm);
                perform cdc.note_dependent_failure(dependent.relation, sqlerrm, sqlstate);
        end;
    end loop;
end
$$;
