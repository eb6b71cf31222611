-- Values of a type that are equal and look different, or none. It prints the cases that fail.
begin;
set client_min_messages = warning;
create schema app;
create collation app.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create type app.mood as enum ('glad', 'sad');
create domain app.price as numeric(12, 2);
create domain app.any_price as numeric;
create type app.place as (street text, house integer);
create type app.loose_place as (street text collate app.loose, house integer);
create type app.offer as (price numeric, name text);
create type app.duration as range (subtype = interval);
create type app.span as range (subtype = timestamp, multirange_type_name = app.spans);

-- Where two values are given, they are equal, so the type is one whose equal values may differ.
create temporary table "case" (type text, collation_name text, one text, other text);
insert into "case" values
    ('numeric', null, '1.5', '1.50'),
    ('numeric[]', null, '{1.5}', '{1.50}'),
    ('numrange', null, '[1,2.0)', '[1.0,2)'),
    ('nummultirange', null, '{[1,2.0)}', '{[1.0,2)}'),
    ('app.any_price', null, '1.5', '1.50'),
    ('app.offer', null, '(1.5,a)', '(1.50,a)'),
    ('app.duration', null, '["30 days",)', '["720:00:00",)'),
    ('interval', null, '30 days', '720:00:00'),
    ('double precision', null, '0', '-0'),
    ('real', null, '0', '-0'),
    ('jsonb', null, '1', '1.0'),
    ('tsquery', null, '''a''', '''a'':*'),
    ('bpchar', null, 'a', 'a '),
    ('text', 'app.loose', 'a', 'A'),
    ('text[]', 'app.loose', '{a}', '{A}'),
    ('varchar(5)', 'app.loose', 'a', 'A'),
    ('app.loose_place', null, '(a,1)', '(A,1)');
insert into "case" (type)
values
    ('numeric(12,2)'), ('numeric(12,2)[]'), ('app.price'), ('app.mood'), ('app.mood[]'), ('app.place'), ('app.span'),
    ('app.spans'), ('character(4)'), ('text'), ('text[]'), ('character varying(5)'), ('character varying'), ('name'),
    ('"char"'), ('boolean'), ('smallint'), ('integer'), ('bigint'), ('oid'), ('xid8'), ('pg_lsn'), ('bytea'), ('bit(3)'),
    ('bit varying'), ('uuid'), ('money'), ('date'), ('time without time zone'), ('time with time zone'),
    ('timestamp(0) without time zone'), ('timestamp with time zone'), ('inet'), ('cidr'), ('macaddr'), ('macaddr8'),
    ('tid'), ('oidvector'), ('tsvector'), ('int4range'), ('int8multirange'), ('tstzrange'), ('daterange');

create temporary table got (type text, is_identical boolean, is_right boolean);
do $$
declare
    one record;
    answer boolean;
    is_right boolean;
begin
    for one in select * from "case" loop
        execute format('create temporary table probe (value %s %s)', one.type, 'collate ' || one.collation_name);
        select cdc.equal_is_identical(a.atttypid, a.atttypmod, a.attcollation) into answer
        from pg_attribute as a where a.attrelid = 'probe'::regclass and a.attname = 'value';
        is_right := answer;
        if one.one is not null then
            -- That a group takes both says that they are equal to it.
            execute 'insert into probe values ($1::' || one.type || '), ($2::' || one.type || ')' using one.one, one.other;
            execute 'select not $1 and count(distinct value) = 1 and count(distinct format(''%s'', value) collate "C") = 2 from probe'
            into is_right using answer;
        end if;
        insert into got values (one.type, answer, is_right);
        drop table probe;
    end loop;
end
$$;
-- What no type is.
insert into got values ('no type', false, not cdc.equal_is_identical(0, -1, 0));

select * from got where is_right is not true;
rollback;
