-- What is at a path of a JSON document, as image_value gives values: a plain string as it is, `\null` for null and
-- for nothing, anything else as a backslash and its JSON; `\"unreadable"` for a text that is no JSON, or has an
-- escape of a character that no text can hold.
create or replace function cdc.value_at(document text, path text[]) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    found text;
begin
    found := document::json #>> path;
    return case
        when found is null then '\null'
        when found = '' or strpos(found, '\') > 0 then '\' || to_json(found)
        else found
    end;
exception
    when data_exception or program_limit_exceeded then
        return '\"unreadable"';
end
$$;
