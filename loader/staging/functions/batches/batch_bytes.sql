-- How many bytes of long payloads a model takes at once. Tests replace it.
create or replace function cdc.batch_bytes() returns bigint language sql immutable as 'select 64000000::bigint';
