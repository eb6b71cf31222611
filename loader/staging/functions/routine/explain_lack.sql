-- Why a change cannot be attributed: the columns that neither of its rows has. `needs` are the columns by source.
create or replace function cdc.explain_lack(change cdc.change, needs jsonb, table_nos integer[], ordinals integer[])
returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case
        when change.action = 'I' or bool_or(-one.value_no = any (change.missing)) then 'the row has no column '
        else 'the replica identity does not carry the old '
    end
        || string_agg(needs -> (source_no - 1) ->> (one.ordinal::integer - 1), ', ' order by one.ordinal)
    from array_position(table_nos, change.table_no) as source_no
    cross join lateral unnest(ordinals[source_no:source_no][:]) with ordinality as one (value_no, ordinal)
    where one.value_no = any (change.missing)
$$;
