-- What changes add to the groups of a fact, evaluated here: for a seed or a replay from an archive, and for a seed of
-- rows that came here as inserts. `moved` is a table like computed_change, of which one attempt of a
-- model is read. Rows as in a seed's incoming table: a group of a source with its sums, or a reason. With the reason
-- `went` it is what was deleted from a source whose deletes are ignored; with a negative number of rows it is rows
-- gone that the query could not take.
create or replace function cdc.count_moved(compiled jsonb, moved text, model text, attempt bigint, went text)
returns table (part text, dimensions text[], row_count bigint, sums text[], reason text, example text)
language plpgsql
set search_path = pg_catalog, pg_temp
set standard_conforming_strings from current
set DateStyle from current
set IntervalStyle from current
set TimeZone from current
set extra_float_digits from current
set bytea_output from current
as $$
#variable_conflict use_column
declare
    tables constant text[] := array(select value ->> 'table' from jsonb_array_elements(compiled -> 'sources') with ordinality as one (value, place) order by place);
    own record := cdc.own_places(compiled);
    changes cdc.change[];
    bad cdc.change[];
    messages text[];
    count_all text;
begin
    -- The names of a model's dbt role are not run: what is registered is written again, for this session alone.
    drop function if exists pg_temp.waltally_deltas(cdc.change[], integer[], integer[]);
    execute cdc.write_deltas(compiled, 'pg_temp.waltally_deltas');
    perform set_config('timezone', compiled ->> 'timezone', true);
    execute format(
        'select array_agg(row(moved.source_no, moved.action, ''0/0''::pg_lsn + moved.commit_lsn, null, false, null, '
        'moved.old_values, moved.new_values, moved.change_count, ''0/0''::pg_lsn + moved.last_lsn, null)::cdc.change) '
        'from %s as moved where moved.model_name = $1 and moved.attempt = $2',
        moved
    ) into changes using model, attempt;
    count_all := format(
        $template$
        select
            ($1)[delta.waltally_source_no],
            array[%s]::text[],
            (%s * (case when delta.waltally_archived_lsn is null then 1 else -1 end))::bigint,
            array[%s]::text[],
            case when delta.waltally_archived_lsn is not null then $5 end,
            null::text
        from pg_temp.waltally_deltas($2, $3, $4) as delta
        $template$,
        cdc.write_names(compiled -> 'keys', 'delta.%I::text'),
        format('delta.%I', compiled ->> 'rows'),
        cdc.write_names(
            compiled -> 'kept', '(delta.%I * (case when delta.waltally_archived_lsn is null then 1 else -1 end))::text'
        )
    );
    begin
        -- The function fails before it gives its first row.
        return query execute count_all using tables, changes, own.table_nos, own.places, went;
        return;
    exception
        when data_exception or cardinality_violation or feature_not_supported or syntax_error or program_limit_exceeded then
            select * into changes, bad, messages from cdc.find_bad_images('pg_temp.waltally_deltas', changes, own.table_nos, own.places);
    end;
    return query execute count_all using tables, changes, own.table_nos, own.places, went;
    return query select * from cdc.count_bad_rows(compiled, bad, messages, own.table_nos);
end
$$;
