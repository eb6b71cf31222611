-- Which tables the counts are of. A name may come to mean another table, and the plugin knows only
-- names: the rows of the former table would stay in the counts without a word.

alter table slot_position add column source_tables jsonb;
comment on column slot_position.source_tables is
    'The counted tables at setup: name to oid and to the attribute numbers of the dimensions.';

alter table historical_snapshot add column source_tables jsonb;
comment on column historical_snapshot.source_tables is
    'The same at the snapshot, where it is newer than the setup; null for a seed from an export.';

-- Only what says that the text is no JSON: whatever else goes wrong (memory, disk) must stop the
-- batch, or a good change would be rejected.
create or replace function jsonb_or_null(payload text) returns jsonb
language plpgsql immutable strict parallel unsafe as $$
begin
    return payload::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end
$$;
