-- One column of an image: an array of {"name": ..., "value": ...}, or the part of the plugin's
-- message that begins or ends with it. Null where the image lacks the column; a string that is
-- neither empty nor holds a backslash as it is; anything else as a backslash and its JSON. The models
-- read plain strings by themselves and call this for the rest.
create or replace function cdc.image_value(image text, name text) returns text
language plpgsql immutable strict parallel unsafe set search_path = pg_catalog, pg_temp as $$
declare
    key constant text := to_json(name)::text;
    token text;
    value jsonb;
begin
    if strpos(image, key) = 0 then
        return null;
    end if;
    -- Unescaped quotes are structure: inside a string each has a backslash before it.
    token := split_part(image, '{"name":' || key || ',"value":', 2);
    if token <> '' and left(token, 1) not in ('"', '[', '{', '}') then
        return '\' || split_part(token, '}', 1);
    end if;
    -- Only a long string, or another form than the plugin's, needs the whole image parsed.
    value := cdc.jsonb_or_null(substring(left(token, 4000) from '^"(?:[^"\\]|\\.)*"'));
    if value is null then
        token := case
            when image like '[%' then image
            when image like '{"action":%' then substr(image, strpos(image, '":[') + 2)
            else '[' || image
        end;
        value := jsonb_path_query_first(
            cdc.jsonb_or_null(rtrim(token, '} ')),
            '$[*] ? (@.name == $name).value',
            jsonb_build_object('name', name)
        );
    end if;
    token := value #>> '{}';
    if jsonb_typeof(value) = 'string' and token <> '' and strpos(token, '\') = 0 then
        return token;
    end if;
    return '\' || value::text;
end
$$;
