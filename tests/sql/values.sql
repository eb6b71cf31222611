-- How values of the plugin's JSON are read. A case a line: what is asked, what comes, what must come. It prints the cases
-- that fail, so nothing where all is right: psql -f tests/sql/values.sql, where loader setup has made the schema cdc.
select failed.*
from (
    values
    -- jsonb_or_null
    ('JSON', cdc.jsonb_or_null('{"a": 1}')::text, '{"a": 1}'),
    ('no JSON', cdc.jsonb_or_null('{"a": ')::text, null),
    ('a character that no text holds', cdc.jsonb_or_null('"\u0000"')::text, null),
    -- image_value: a plain string as it is, anything else as a backslash and its JSON
    ('a string', cdc.image_value('[{"name":"a","value":"x"}]', 'a'), 'x'),
    ('a number', cdc.image_value('[{"name":"a","value":1.50}]', 'a'), '\1.50'),
    ('an escape', cdc.image_value('[{"name":"a","value":"x\ty"}]', 'a'), e'x\ty'),
    -- value_at: what is at a path of a document
    ('a text at a path', cdc.value_at('{"a": {"b": "x"}}', '{a,b}'), 'x'),
    ('nothing at a path', cdc.value_at('{"a": {}}', '{a,b}'), '\null'),
    ('a document that is none', cdc.value_at('{"a": ', '{a}'), '\"unreadable"'),
    -- takes
    ('the last day of February', cdc.takes('date', '2024-02-29')::text, 'true'),
    ('a day that February lacks', cdc.takes('date', '2026-02-29')::text, 'false'),
    ('the largest bigint', cdc.takes('bigint', '9223372036854775807')::text, 'true'),
    ('one more', cdc.takes('bigint', '9223372036854775808')::text, 'false'),
    ('a leading zero', cdc.takes('integer', '007')::text, 'false'),
    ('a numeric with its scale', cdc.takes('numeric(5,2)', '123.45')::text, 'true'),
    ('a numeric with a scale too many', cdc.takes('numeric(5,2)', '123.456')::text, 'false'),
    ('a numeric that is too large', cdc.takes('numeric(5,2)', '1234.5')::text, 'false'),
    ('a boolean', cdc.takes('boolean', 'true')::text, 'true'),
    ('a boolean as PostgreSQL prints it', cdc.takes('boolean', 't')::text, 'false'),
    -- period_of
    ('a day in its zone', cdc.period_of('2026-01-31 23:30:00+00', 'UTC', 'Europe/Berlin', 'day'), '2026-02-01'),
    ('a week begins on Monday', cdc.period_of('2026-02-01', 'UTC', 'UTC', 'week'), '2026-01-26'),
    ('the hour of a date', cdc.period_of('2026-01-31', 'UTC', 'UTC', 'hour'), null)
) as failed (what, got, wanted)
where got is distinct from wanted;
