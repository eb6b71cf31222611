-- How values of the plugin's JSON are read. A case a line: what is asked, what comes, what must come. It prints the cases
-- that fail, so nothing where all is right: psql -f tests/sql/values.sql, where loader setup has made the schema cdc.
select failed.*
from (
    values
    -- jsonb_or_null
    ('JSON', cdc.jsonb_or_null('{"a": 1}')::text, '{"a": 1}'),
    ('no JSON', cdc.jsonb_or_null('{"a": ')::text, null),
    ('a character that no text holds', cdc.jsonb_or_null('"\u0000"')::text, null),
    -- json_string
    ('the last of a message', cdc.json_string('"a\n]}"}]}'), e'a\n]}')
) as failed (what, got, wanted)
where got is distinct from wanted;
