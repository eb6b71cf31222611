-- How many changed rows of an input a model over models follows at once; more, and it is filled again, which costs less
-- then. Tests replace it.
create or replace function cdc.changed_rows_limit() returns bigint language sql immutable as 'select 50000::bigint';
