-- The tokens of columns, as write_tokens has them, cut out of a long message of one image, or of an update with both.
-- Null where there is no such image. Each copy of a part of the message is gone when the next one is made: in a query
-- all of them would stay until the row is done.
create or replace function cdc.cut_tokens(payload text, is_update boolean, image text, columns text[]) returns text[]
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
declare
    identity constant text := ',"identity":[';
    has_identity boolean;
    searched text;
    ordinal integer;
    tokens text[] := array[]::text[];
begin
    if payload is null then
        return null;
    end if;
    has_identity := is_update and strpos(payload, identity) > 0;
    if image = 'old' and is_update and not has_identity then
        return null;
    end if;
    for column_no in 1..cardinality(columns) loop
        searched := format('{"name":%s,"value":', to_json(columns[column_no]));
        -- What a new image lacks is the old one's, and so the first.
        ordinal := 2;
        if image = 'old' and has_identity and strpos(split_part(payload, searched, 2), identity) > 0 then
            ordinal := 3;
        end if;
        tokens := tokens || nullif(split_part(split_part(split_part(payload, searched, ordinal), ',{"name":', 1), identity, 1), '');
    end loop;
    return tokens;
end
$$;
