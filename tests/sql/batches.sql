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
    ('0/50', 1, null, 'no JSON')
) as staged (lsn, ordinal, action, payload);

select failed.*
from (
    values
    -- batch_end: whole transactions
    ('all of it fits', cdc.batch_end('s', '0/10', '0/90', 100)::text, '(0/90,f)'),
    ('it ends where a transaction begins', cdc.batch_end('s', '0/10', '0/90', 3)::text, '(0/30,f)'),
    ('a transaction that is larger goes whole', cdc.batch_end('s', '0/30', '0/90', 2)::text, '(0/40,t)'),
    ('nothing is staged', cdc.batch_end('s', '0/60', '0/90', 2)::text, '(0/90,f)'),
    ('another slot', cdc.batch_end('t', '0/10', '0/90', 2)::text, '(0/90,f)'),
    -- truncated_tables
    ('tables that are truncated', cdc.truncated_tables('s', '0/10', '0/90')::text, '{public.a,public.b}'),
    ('only those of the part', cdc.truncated_tables('s', '0/30', '0/90')::text, '{public.b}'),
    ('none', cdc.truncated_tables('s', '0/50', '0/90')::text, null),
    -- find_places: where a routine finds its values in what a reader gives
    (
        'the places of two tables',
        cdc.find_places('[["p.a", ["x"]], ["p.b", ["y"]]]', '[["p.b", ["z", "y"]], ["p.a", ["x"]]]')::text,
        '("{2,1}","{{1},{2}}")'
    ),
    (
        'places in an order of their own',
        cdc.find_places('[["p.a", ["y", "x"]]]', '[["p.a", ["x", "y"]]]')::text,
        '({1},"{{2,1}}")'
    ),
    ('a value that the reader lacks', (cdc.find_places('[["p.a", ["y"]]]', '[["p.a", ["x"]]]')).table_nos::text, null),
    ('only the number of rows counts', cdc.find_places('[["p.a", []]]', '[["p.a", []]]')::text, '({1},)'),
    ('a table that the reader lacks', (cdc.find_places('[["p.a", []]]', '[["p.b", []]]')).table_nos::text, null),
    -- jsonb_or_null: how values of the plugin's JSON are read
    ('JSON', cdc.jsonb_or_null('{"a": 1}')::text, '{"a": 1}'),
    ('no JSON', cdc.jsonb_or_null('{"a": ')::text, null),
    ('a character that no text holds', cdc.jsonb_or_null('"\u0000"')::text, null),
    -- json_string
    ('the last of a message', cdc.json_string('"a\n]}"}]}'), e'a\n]}')
) as failed (what, got, wanted)
where got is distinct from wanted;
rollback;
