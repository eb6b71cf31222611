-- How many rows of each table belong to no group after a part of a batch.
create or replace function cdc.add_left_out(before jsonb, added jsonb) returns jsonb
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    part record;
begin
    before := coalesce(before, '{}');
    for part in select * from jsonb_each(added) loop
        before := jsonb_set(before, array[part.key], to_jsonb(
            (part.value ->> 'row_count')::bigint
            + case
                when (part.value ->> 'is_truncated')::boolean then 0
                else coalesce((before ->> part.key)::bigint, 0)
            end
        ));
    end loop;
    return before;
end
$$;
