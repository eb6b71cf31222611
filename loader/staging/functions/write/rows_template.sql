-- The template of write_rows: the routine that applies a batch to a rows model. Without old rows, what cannot be
-- applied is listed at once: only then is known what the model held.
create or replace function cdc.rows_template() returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select
        cdc.routine_head() ||
$template$
-- Few rows are searched in a large table, however small it was when the plan was made.
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $routine$
#variable_conflict use_column
declare
    remaining cdc.change[];
    bad cdc.change[] := '{}';
    rejected cdc.change[];
    tried record;
begin
    lock table {relation} in row exclusive mode nowait;
    if $1 = 'rebuild' then
        {reshape}
        delete from {relation};
        perform cdc.list_baseline({listed_name}, {model_key}, $2, {model_name});
        {baseline}
        return;
    elsif $1 = 'list' and {is_listed} then
        return;
    end if;

    remaining := {left_by}(cdc.own_changes($3, $4, $5{key_nos}){key_nos});
    if $1 = 'list' then
        select * into remaining, bad from cdc.find_bad_images({deltas_name}, remaining, $4, $5);
    else
        if $1 <> 'add plain' then
            is_reset := nullif(cdc.truncated_sources($3, $4) <> '{}', false);
            if is_reset and $1 = 'add' then
                delete from {relation};
            end if;
        end if;
        {fill}
        loop
            begin
                {merge}
                exit;
            exception
                when data_exception or cardinality_violation or feature_not_supported or syntax_error
                    or program_limit_exceeded then
                    select * into tried from cdc.find_bad_images({deltas_name}, remaining, $4, $5);
                    if tried.bad = '{}' then
                        {room}
                        raise;
                    end if;
                    remaining := tried.good;
                    bad := bad || tried.bad;
            end;
        end loop;
    end if;
    rejected := cdc.new_rows(bad) || {reject};
    select max(change.last_lsn), max(change.last_lsn) filter (where cdc.is_lost(change))
    into rejected_lsn, lost_lsn
    from unnest(rejected) as change;
    if $1 = 'list' or {is_listed} then
        perform cdc.list_rejected({listed_name}, {model_key}, $2, array[{table_name}], $4, rejected);
    end if;
end
$routine$
$template$
$$;
