-- How many changes a model takes at once. Tests replace it.
create or replace function cdc.batch_size() returns bigint language sql immutable as 'select 200000::bigint';
