-- Where a batch begins and ends, and what is in it. A case a line: what is asked, what comes, what must come. It prints
-- the cases that fail, so nothing where all is right.
begin;
insert into cdc.slot_position (slot_name, system_identifier, source_database, start_lsn, position_lsn)
values ('s', '1', 'app', '0/10', '0/90');
create table cdc.change_log_of_s partition of cdc.change_log for values from ('0/10') to ('0/90');
insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)
select 's', lsn::pg_lsn, ordinal, 1, now(), action, payload
from (
    values
    ('0/10', 1, 'I', '{"action":"I","schema":"public","table":"a"}'),
    ('0/20', 1, 'T', '{"action":"T","schema":"public","table":"a"}'),
    ('0/30', 1, 'I', '{"action":"I","schema":"public","table":"b"}'),
    ('0/30', 2, 'I', '{"action":"I","schema":"public","table":"b"}'),
    ('0/30', 3, 'I', '{"action":"I","schema":"public","table":"b"}'),
    ('0/40', 1, null, '{ "action": "T", "schema": "public", "table": "b" }'),
    ('0/50', 1, null, 'no JSON'),
    ('0/60', 1, 'I', repeat('x', 1100000)),
    ('0/70', 1, 'I', repeat('x', 1100000)),
    ('0/70', 2, 'I', 'short'),
    ('0/70', 3, 'I', repeat('x', 1100000))
) as staged (lsn, ordinal, action, payload);
create or replace function cdc.batch_bytes() returns bigint language sql immutable as 'select 2000000::bigint';

select failed.*
from (
    values
    -- batch_end: whole transactions
    ('all of it fits', cdc.batch_end('s', '0/10', '0/60', 100)::text, '(0/60,f)'),
    ('it ends where a transaction begins', cdc.batch_end('s', '0/10', '0/90', 3)::text, '(0/30,f)'),
    ('a transaction that is larger goes whole', cdc.batch_end('s', '0/30', '0/90', 2)::text, '(0/40,t)'),
    ('nothing is staged', cdc.batch_end('s', '0/80', '0/90', 2)::text, '(0/90,f)'),
    ('another slot', cdc.batch_end('t', '0/10', '0/90', 2)::text, '(0/90,f)'),
    ('long ones that are too many bytes', cdc.batch_end('s', '0/10', '0/90', 100)::text, '(0/70,f)'),
    ('one is never too many', cdc.batch_end('s', '0/60', '0/70', 100)::text, '(0/70,f)'),
    ('two of one transaction are two parts', cdc.batch_end('s', '0/70', '0/90', 100)::text, '(0/90,t)'),
    ('which end before the second', cdc.part_end('s', '0/70', 1, '0/90', 100)::text, '(0/70,3)'),
    ('or before that where changes are too many', cdc.part_end('s', '0/70', 1, '0/90', 1)::text, '(0/70,2)'),
    -- truncated_tables
    ('tables that are truncated', cdc.truncated_tables('s', '0/10', '0/90')::text, '{public.a,public.b}'),
    ('only those of the part', cdc.truncated_tables('s', '0/30', '0/90')::text, '{public.b}'),
    ('none', cdc.truncated_tables('s', '0/50', '0/90')::text, null),
    -- find_ordinals: where a routine finds its values in what a reader gives
    (
        'the ordinals of two tables',
        cdc.find_ordinals('[["p.a", ["x"]], ["p.b", ["y"]]]', '[["p.b", ["z", "y"]], ["p.a", ["x"]]]')::text,
        '("{2,1}","{{1},{2}}")'
    ),
    (
        'ordinals in an order of their own',
        cdc.find_ordinals('[["p.a", ["y", "x"]]]', '[["p.a", ["x", "y"]]]')::text,
        '({1},"{{2,1}}")'
    ),
    ('a value that the reader lacks', (cdc.find_ordinals('[["p.a", ["y"]]]', '[["p.a", ["x"]]]')).table_nos::text, null),
    ('only the number of rows counts', cdc.find_ordinals('[["p.a", []]]', '[["p.a", []]]')::text, '({1},)'),
    ('a table that the reader lacks', (cdc.find_ordinals('[["p.a", []]]', '[["p.b", []]]')).table_nos::text, null),
    -- jsonb_or_null: how values of the plugin's JSON are read
    ('JSON', cdc.jsonb_or_null('{"a": 1}')::text, '{"a": 1}'),
    ('no JSON', cdc.jsonb_or_null('{"a": ')::text, null),
    ('a character that no text holds', cdc.jsonb_or_null('"\u0000"')::text, null),
    -- json_string
    ('the last of a message', cdc.json_string('"a\n]}"}]}'), e'a\n]}'),
    ('only brackets', cdc.json_string('"]}]}"}]}'), ']}]}'),
    -- cut_tokens: what a long message holds of columns
    ('of an insert', cdc.cut_tokens('{"columns":[{"name":"a","value":1},{"name":"b\"","value":"2"}]}', false, 'new', '{a,"b\"",c}')::text, array['1}', '"2"}]}', null]::text),
    ('of a delete', cdc.cut_tokens('{"action":"D","identity":[{"name":"a","value":1}]}', false, 'old', '{a}')::text, array['1}]}']::text),
    ('of the new row of an update', cdc.cut_tokens('{"columns":[{"name":"a","value":1},{"name":"b","value":3}],"identity":[{"name":"a","value":0},{"name":"b","value":2}]}', true, 'new', '{a,b}')::text, array['1}', '3}]']::text),
    ('of its old row', cdc.cut_tokens('{"columns":[{"name":"a","value":1},{"name":"b","value":3}],"identity":[{"name":"a","value":0},{"name":"b","value":2}]}', true, 'old', '{a,b}')::text, array['0}', '2}]}']::text),
    ('what the new row lacks', cdc.cut_tokens('{"columns":[{"name":"a","value":1}],"identity":[{"name":"a","value":0},{"name":"b","value":2}]}', true, 'new', '{a,b}')::text, array['1}]', '2}]}']::text),
    ('which is the old one''s', cdc.cut_tokens('{"columns":[{"name":"a","value":1}],"identity":[{"name":"a","value":0},{"name":"b","value":2}]}', true, 'old', '{a,b}')::text, array['0}', '2}]}']::text),
    ('what the old row lacks', cdc.cut_tokens('{"columns":[{"name":"a","value":1},{"name":"b","value":3}],"identity":[{"name":"a","value":0}]}', true, 'old', '{a,b}')::text, array['0}]}', null]::text),
    ('an update without its old row', cdc.cut_tokens('{"columns":[{"name":"a","value":1}]}', true, 'old', '{a}')::text, null),
    ('no column is needed', cdc.cut_tokens('{"columns":[],"identity":[]}', true, 'old', '{}')::text, '{}'),
    ('there is no image', cdc.cut_tokens(null, false, 'old', '{a}')::text, null)
) as failed (what, got, wanted)
where got is distinct from wanted;
rollback;
