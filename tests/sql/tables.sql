-- Tables of models get the columns and the keys that are declared. It prints the cases that fail, so nothing where all is
-- right.
begin;
create schema app;
set client_min_messages = warning;
create table app.ft (id uuid, a text not null, n bigint, extra text);
select cdc.keep_constraints('app.ft', 'uix_ft_dimensions', false, '{a}', '{n}') \g /dev/null
create view app.reads_extra as select extra from app.ft;

create temporary table got (what text, got text, wanted text);
insert into got
values
('names in a list', cdc.quoted('{a,"B c"}'), 'a, "B c"'),
('the key that was made', cdc.has_key('app.ft', 'uix_ft_dimensions', '{a}')::text, 'true'),
('another key', cdc.has_key('app.ft', 'uix_ft_dimensions', '{a,n}')::text, 'false'),
(
    'columns beside what is declared',
    (
        select string_agg(format('%s %s%s%s', name, is_there::int, is_declared::int, is_same::int), ', ' order by name)
        from cdc.compare_columns('app.ft', 'got')
    ),
    'a 100, extra 100, got 010, id 100, n 100, wanted 010, what 010'
);

-- Only a derived column is declared otherwise: rows stay.
insert into app.ft values (gen_random_uuid(), 'x', 1, 'kept');
insert into got
select
    'a new derived column', cdc.adapt_table(
        'app.ft', 'select null::uuid as id, ''''::text as a, 0::bigint as n, 0::numeric as d', '{d}',
        'uix_ft_dimensions', false, '{a}', '{n}', null
    )::text, 'false';
insert into got
select 'rows stay, and columns of others', string_agg(concat_ws(' ', a, n, extra, d), ', '), 'x 1 kept' from app.ft;

-- A measure gets another type: the rows go, with what nobody declares, and the key is there again.
drop view app.reads_extra;
insert into got
select
    'a measure of another type', cdc.adapt_table(
        'app.ft', 'select null::uuid as id, ''''::text as a, 0::numeric as n, 0::numeric as d', '{d}',
        'uix_ft_dimensions', false, '{a}', '{n}', null
    )::text, 'true';
insert into got
select 'its rows went', count(*)::text, '0' from app.ft
union all
select 'its key stayed', cdc.has_key('app.ft', 'uix_ft_dimensions', '{a}')::text, 'true';

-- Where rows may not go, a column goes that the former model had, and one of somebody else stays.
alter table app.ft add mine text, add old text;
select cdc.note_objects('app.ft', '{}', '{}', '{a,n,d,old}') \g /dev/null
insert into got
select
    'a column of the former model', cdc.adapt_table(
        'app.ft', 'select null::uuid as id, ''''::text as a, 0::numeric as n, 0::numeric as d', '{d}',
        'uix_ft_dimensions', false, '{a}', '{n}', 'app.ft'
    )::text, 'false';
insert into got
select 'it went, and that of somebody else stayed', string_agg(attname, ', ' order by attnum), 'id, a, d, n, mine'
from pg_attribute where attrelid = 'app.ft'::regclass and attnum > 0 and not attisdropped;

-- keep_index makes one, and no second one.
select cdc.keep_index('app.ft', '{n,a}') \g /dev/null
select cdc.keep_index('app.ft', '{n,a}') \g /dev/null
insert into got
select 'one index', count(*)::text, '1' from pg_index
where indrelid = 'app.ft'::regclass and not indisunique;

select * from got as failed
where got is distinct from wanted;
rollback;
