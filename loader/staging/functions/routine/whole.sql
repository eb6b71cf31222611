-- A value for a column of a model's table, or the error of a text that is too long where the column's length would
-- round it; see write_whole. All lengths go at once: see make_room.
create or replace function cdc.whole(value anyelement, rounded anyelement, relation regclass) returns anyelement
language plpgsql stable set search_path = pg_catalog as $$
begin
    if value is distinct from rounded and exists (
        select from pg_attribute as a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.atttypmod <> -1
    ) then
        raise exception 'the value % does not fit its column', value using errcode = '22001';
    end if;
    return value;
end
$$;
