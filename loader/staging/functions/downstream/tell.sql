-- Tell the models that read this one which rows it has changed, each then those above it. The highest comes first:
-- what is below it holds, where the same rows are under both, what it held before. What one fails with is written
-- down, and it is filled again: no input fails because of it. `before` and `after` are as write_told gives them. For
-- one that is being filled it is queued.
create or replace function cdc.tell(model text, before anyarray, after anyarray) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    reader record;
    target record;
begin
    if coalesce(cardinality(before), 0) = 0 then
        return;
    end if;
    for reader in
        select own.relation, own.routine, cdc.is_to_be_filled(own.relation) as is_being_filled
        from cdc.downstream_input as input
        inner join cdc.downstream_model as own on own.relation = input.relation
        where input.input_relation = model and cdc.is_told(own.relation)
        order by own.level desc, own.relation
    loop
        if cardinality(before) > cdc.told_rows() then
            perform cdc.ask_to_fill(reader.relation, format('more rows of %s changed at once than it follows', model));
            continue;
        end if;
        begin
            target := cdc.find_installed(
                reader.routine, '(text, text, anyarray, anyarray, anycompatiblearray)', array['anycompatiblearray', 'anycompatiblearray']
            );
            if reader.is_being_filled then
                execute format(
                    'insert into cdc.queued_change (relation, change) select $5, own.change from unnest(('
                    'select made.before from %s(cdc.unless_replaced($1, $6, $7), $2, $3, $4, array[]::jsonb[]) as made'
                    ')) as own (change)', target.name
                )
                using 'queue', model, before, after, reader.relation, target.oid, target.version;
                continue;
            end if;
            execute format(
                'select from %s(cdc.unless_replaced($1, $6, $7), $2, $3, $4, %s) as made '
                'cross join lateral cdc.tell($5, made.before, made.after)',
                target.name, cdc.watched_rows(reader.relation, target.oid)
            )
            using 'add', model, before, after, reader.relation, target.oid, target.version;
        exception
            when lock_not_available or deadlock_detected or sqlstate 'WL001' then
                perform cdc.ask_to_fill(reader.relation, format('it could not be locked: %s', sqlerrm));
            when others then
                perform cdc.ask_to_fill(reader.relation, sqlerrm);
                perform cdc.note_downstream_failure(reader.relation, sqlerrm, sqlstate);
        end;
    end loop;
end
$$;
