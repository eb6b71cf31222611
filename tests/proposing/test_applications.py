"""What is not kept, each with its reason. tests/queries/test_corpus.py has what is."""

from __future__ import annotations

import pytest

from testkit.databases import Database
from tests.proposing.support import proposed
from waltally.errors import LoaderError


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "select count(*) from accounts as a cross join lateral (select from posts limit 20) as p",
            "LIMIT in a sub-select takes some rows by their order",
        ),
        ("select id, language from posts", "each row is needed"),
        (
            "select avg(n) from (select row_number() over (order by id) as n from posts) as p",
            "Nothing says which rows of posts_rows belong together",
        ),
        (
            "select distinct on (language) language, id from posts order by 1, account_id",
            "leaves open which row comes first",
        ),
        (
            "select distinct on (language) language, id from posts where id < 9 /* :to */ order by 1, id",
            "decides which row of a group comes first",
        ),
        (
            "select sum(id * interval '1 day') from posts where id < 9 /* :to */",
            "adds up values of type interval",
        ),
        ("select max(language::timestamp) from posts", "a text cast to timestamp"),
        ("select count(*) from secret", "row security"),
        ("select sum(twice(account_id)) from posts", "a function of a user"),
        ("select count(*) from kept_posts", "a materialized view"),
        ("select count(*) from theirs", "another's view"),
        ("select upper(language), count(*) from posts group by 1", "may be lab.upper"),
        ("select account_id + id, count(*) from posts group by 1", "an operator of a user"),
        ("select count(*) from posts where id operator(lab.+) 1 > 2", "an operator of a user"),
        ("select count(*) from posts where language::lab.tongue = 'x'", "a type of a user"),
        ("select count(*) from posts where tag = 'x' /* :tag */", "a type of a user"),
        (
            "select percentile_disc(array[0.1, 0.9]) within group (order by id) from posts where id < 9 /* :to */",
            "is several values",
        ),
        ("select count(*) from posts where random() < 0.5", "another value at each call"),
        ("select language, count(*) from posts group by rollup (language)", "Grouping sets"),
        ("with recursive r as (select 1 as n) select count(*) from r", "recursive"),
        (
            "select string_agg(language, ',' order by id) from posts where id < 9 /* :to */",
            "needs each row",
        ),
        ("select count(*) from nowhere", "no table nowhere"),
        ("delete from posts", "something beside SELECT"),
        ("select count(language) from posts natural join accounts", "is of two tables"),
        ("select id, count(tag) from posts right join accounts using (id) group by 1", "is of two"),
        ("select count(j.language) from (posts join accounts using (id)) as j", "name"),
        ("select count(p) from accounts a left join posts p using (id)", "whole row"),
        ("select count(*) from posts as p where p.* is not null", "p.* is a whole row"),
        (
            "select (select count(*) from posts where id > avg(p.id)) from posts as p group by p.tag",
            "an aggregate of the query around it",
        ),
        ("select langauge, count(*) from posts group by 1", 'column "langauge" does not exist'),
        ("select language, count(*) from posts group by 3", "position 3 is not in select list"),
        ("selec 1", "no SQL"),
        ("select max(id)::text as n, to_char(max(id), 'TM9') from posts", "each reader's language"),
        (f"select count(*) from posts where {'not ' * 8000} true", "inside one another"),
        ("select count(*) into counted from posts", "SELECT INTO makes a table"),
        (
            "with gone as (delete from posts returning id) select count(*) from gone",
            "A WITH query changes rows",
        ),
    ],
)
def test_what_is_not_kept_is_refused_with_its_reason(
    database: Database, query: str, reason: str
) -> None:
    database.execute(
        "drop schema if exists lab cascade; create schema lab; set search_path = lab;"
        "create table accounts (id bigint primary key);"
        "create domain tongue as text check (value <> ''); create extension if not exists citext;"
        "create table posts (id bigint primary key, account_id bigint, language text, tag citext);"
        "create table secret (id bigint primary key); alter table secret enable row level security;"
        "create materialized view kept_posts as select * from posts;"
        "create view theirs as select id from posts; alter view theirs owner to pg_monitor;"
        "create function upper(varchar) returns text immutable language sql as 'select $1';"
        "create function less(text, text) returns text immutable language sql as 'select $1';"
        "create operator + (function = less, leftarg = text, rightarg = text);"
        "create function twice(bigint) returns bigint immutable language sql as 'select 2 * $1'"
    )
    with pytest.raises(LoaderError) as refused:
        proposed(database, query)
    assert reason in str(refused.value)
    assert refused.value.remedy
