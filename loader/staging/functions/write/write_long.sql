-- SQL: a statement that fills a model's table, or adds to it, again where a value did not fit: see make_room.
create or replace function cdc.write_long(compiled jsonb, relation text, statement text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select case when cdc.write_room(compiled, relation) is null then statement else cdc.fill(
$template$loop
    begin
        {statement}
        exit;
    exception
        when program_limit_exceeded or string_data_right_truncation or string_data_length_mismatch
            or numeric_value_out_of_range then
            if not {has_room} then
                raise;
            end if;
    end;
end loop;$template$,
        jsonb_build_object('statement', statement, 'has_room', cdc.write_room(compiled, relation))
    ) end
$$;
