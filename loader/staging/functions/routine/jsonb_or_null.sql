-- PostgreSQL 15 has no test for valid JSON. A subtransaction per row, so it is not parallel safe.
-- Only errors that say the text is no JSON are caught: whatever else goes wrong (memory, disk) must
-- stop the batch, or a good change would be rejected.
create or replace function cdc.jsonb_or_null(payload text) returns jsonb
language plpgsql immutable strict parallel unsafe as $$
begin
    return payload::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end
$$;

comment on function cdc.jsonb_or_null(text) is
    'The text as jsonb, or null where it is not valid JSON: one bad payload must not stop a batch.';
