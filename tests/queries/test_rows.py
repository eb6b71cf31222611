"""A rows model equals its query after each batch of a random history, however it is cut."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg2
import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.cases import cases
from tests.queries.lab import Lab, Model
from tests.queries.rows_changes import KEY_OF_E, TABLES, VALUES, change_c
from tests.queries.writer import Writer

WHOLE = """select id, kind, mood, amount, discount, price, n, flag, at, day, span, code, tags, doc,
    raw, j, dot, page, corner, range, u, "odd ""name" as "odd", n as again from {a} as a"""

MODELS_OF_A: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": (WHOLE, {}),
    "key_alone": ("select id from {a} as a order by kind", {}),
    "entering": (
        """with import as (select * from {a} as a), final as (
            select i.id as "The id", lower(kind) as kind, mood::text || '!' as mood,
                (select max(tag) from unnest(tags) as tag) as tag, amount * n as product,
                at::date as day, extract(hour from at) as hour,
                octet_length(raw) as size, j ->> 'a' as a, coalesce(x.more, 0) as more
            from import as i left join lateral (select n + 1 as more where n > 0) as x on true
            where (kind <> 'draft' or flag) and at >= '2026-01-01'
        ) select * from final""",
        {"timezone": "Europe/Berlin"},
    ),
    "labels": ("select id, doc, n as ordinals from {a} as a where mood = 'ok' or mood is null", {}),
}


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[Lab]:
    with Lab(cluster.dsn(empty_database(cluster).name), TABLES) as made:
        yield made


EITHER = pytest.mark.parametrize("has_old_rows", [True, False], ids=["old rows", "keys"])


def live(rng: Random, table: str, *models: Model, steps: int = 50) -> None:
    """Let the models follow changes of a table."""
    writer = Writer.of(models[0].lab, rng, [table], VALUES)
    for _ in range(steps):
        writer.write(rng.choice((1, 3, 10)))
        for model in models:
            model.catch_up()
            assert model.differences() == []


@EITHER
def test_a_model_follows_its_table(lab: Lab, has_old_rows: bool) -> None:
    rng = Random(has_old_rows)
    lab.follow("a", has_old_rows)
    models = [
        Model(lab, f"{name}_{has_old_rows}", query, rng, **options)
        for name, (query, options) in MODELS_OF_A.items()
    ]
    for _ in range(12):
        live(rng, "a", *models, steps=10)
        for model in models:
            rng.choice((model.seed, model.rebuild))()
            assert model.differences() == []


@EITHER
def test_a_key_of_several_columns_is_the_tables_own(lab: Lab, has_old_rows: bool) -> None:
    rng = Random(1)
    lab.follow("b", has_old_rows)
    query = 'select note, region, letter, "No" as number, doc from {b} as b'
    # What is not finite is null, and no key.
    expected = query + ' where "No" is not null'
    model = Model(lab, f"several_{has_old_rows}", query, rng, expected)
    assert [key["name"] for key in model.compiled["keys"]] == ["letter", "region", "number"]
    live(rng, "b", model)
    assert (
        lab.value(
            "select count(distinct reason) from lab.rejected where model_name = %s", model.name
        )
        == 1
    )


@EITHER
@pytest.mark.parametrize("seed", range(2))
def test_a_large_value_that_updates_leave_out_is_what_it_was(
    lab: Lab, has_old_rows: bool, seed: int
) -> None:
    rng = Random(seed)
    lab.execute("delete from lab.a")
    lab.follow("a", has_old_rows, leaves_out=True)
    queries = (
        WHOLE,
        "select id, doc, length(doc) as size, raw, n from {a} as a",
        # What another model of the slot needs may be left out too.
        "select id, n, doc from {a} as a",
        "select id, n, lower(kind) as kind from {a} as a",
    )
    models = [
        Model(lab, f"large_{number}_{seed}_{has_old_rows}", query, rng)
        for number, query in enumerate(queries)
    ]
    assert [model.compiled["large_columns"] for model in models] == [[], [], [], ["kind"]]
    live(rng, "a", *models)


def test_what_a_column_s_length_keeps_small_is_no_large_value(lab: Lab) -> None:
    lab.execute(
        "create table lab.lettered (id int primary key, state varchar(10), code char(500),"
        " page varchar(501), bare varchar, states varchar(10)[])"
    )
    lab.read_shape("lettered")
    names = ("state", "code", "page", "bare", "states")
    listed = ", ".join(f"{name}::text as {name}" for name in names)
    compiled = lab.compile(f"select id, {listed} from {{lettered}} as t")
    del lab.sources["lettered"]
    assert compiled["large_columns"] == ["page", "bare", "states"]


def test_a_large_value_that_nothing_holds_is_listed(lab: Lab) -> None:
    rng = Random(0)
    lab.execute(
        "delete from lab.a; insert into lab.a (id, kind, doc) "
        "values (1, 'x', repeat('long ', 20)), (2, 'x', 'y')"
    )
    lab.follow("a", has_old_rows=False, leaves_out=True)
    read = Model(lab, "read", "select id, length(doc) as size from {a} as a", rng)
    entering = Model(lab, "entering", "select id, doc from {a} as a where kind = 'paid'", rng)
    assert (read.compiled["large_columns"], entering.compiled["large_columns"]) == (
        ["doc"],
        ["kind", "doc"],
    )
    lab.transact("update lab.a set kind = 'paid'")
    for model in (read, entering):
        model.catch_up()
        ((reason, payload),) = lab.execute(
            "select reason, payload from lab.rejected where model_name = %s", model.name
        )
        assert reason == (
            "an unchanged large value is not in the change, and the model does not hold it:"
            " with replica identity full it is"
        )
        assert '"name":"id","value":1' in payload
        assert model.is_lost, "a row is missing, so the model waits for a seed"
        said = lab.value("select cdc.say_model(%s)", json.dumps(model.compiled))
        assert (
            "doc alone may need a seed, unless `alter table lab.a replica identity full;`" in said
        )
    # Of one that does not enter nothing is needed. Once the model holds it, updates may leave the
    # value out.
    lab.execute("delete from lab.rejected")
    lab.transact("update lab.a set kind = 'draft', n = 5")
    lab.transact("update lab.a set n = 6")
    lab.transact("update lab.a set kind = 'paid', doc = repeat('other ', 20)")
    lab.transact("update lab.a set n = 3", "update lab.a set id = 3 where id = 1")
    entering.is_lost = False
    entering.catch_up()
    assert entering.differences() == []
    assert lab.execute("select * from lab.rejected") == []
    assert not entering.is_lost


BAD = """select id, 12 / n as quotient, kind::integer as number, amount * 1e200::float8 as product
    from {a} as a where flag and (doc is null or length(doc) > 1)"""


@EITHER
@pytest.mark.parametrize("seed", range(2))
def test_a_row_that_the_query_cannot_take_is_left_out_and_listed(
    lab: Lab, has_old_rows: bool, seed: int
) -> None:
    rng = Random(seed)
    lab.execute("delete from lab.a; delete from lab.rejected")
    lab.follow("a", has_old_rows)
    model = Model(lab, f"bad_{seed}_{has_old_rows}", BAD, rng)
    live(rng, "a", model)
    reasons = lab.execute("select distinct reason from lab.rejected order by 1")
    assert [reason for (reason,) in reasons if "integer" not in reason] == ["division by zero"]
    assert len(reasons) > 3
    lab.transact(
        "truncate lab.a",
        "insert into lab.a (id, n, kind, flag) values (1, 0, '1', true), (2, 1, '1', true)",
    )
    model.catch_up()
    last = (
        "select payload::jsonb #>> '{columns,0,value}', reason from lab.rejected "
        "order by commit_lsn desc limit 1"
    )
    assert lab.execute(last) == [("1", "division by zero")]


def test_the_key_of_a_row_may_be_another_rows_for_a_moment(lab: Lab) -> None:
    rng = Random(2)
    lab.follow("c", has_old_rows=True)
    models = [
        Model(lab, f"moments_{number}", query, rng)
        for number, query in enumerate(
            ("select id, kind from {c} as c", "select id from {c} as c where kind <> 'x'")
        )
    ]
    stops = 0
    for number in range(80):
        for _ in range(rng.randrange(1, 5)):
            lab.transact(*(change_c(rng) for _ in range(rng.choice((1, 1, 3, 8)))))
        for model in models:
            # A transaction that is larger than a batch goes in parts, which may end just then.
            model.has_parts = number > 40
            try:
                model.catch_up()
            except psycopg2.Error as error:
                assert (model.has_parts, error.pgcode) == (True, "WL004")
                model.seed()
                model.rebuild()
                stops += 1
            assert model.differences() == []
    assert stops > 5


@EITHER
def test_a_key_of_odd_types_is_one_however_it_is_spelled(lab: Lab, has_old_rows: bool) -> None:
    rng = Random(3)
    lab.execute("delete from lab.rejected")
    lab.follow("e", has_old_rows)
    names = ", ".join(KEY_OF_E)
    expected = f"select {names}, n from {{e}} as e where octet_length(raw) < 4000 and numbers <> array_fill(7, '{{1000}}')"
    model = Model(lab, f"odd_{has_old_rows}", f"select {names}, n from {{e}} as e", rng, expected)
    live(rng, "e", model)
    assert lab.execute("select distinct reason from lab.rejected") == [
        ('invalid input syntax for type numeric: "the key does not fit an index"',)
    ]


def test_a_change_that_lacks_what_is_needed_is_listed(lab: Lab) -> None:
    rng = Random(4)
    lab.transact("delete from lab.d", "insert into lab.d values (1, 'x')")
    lab.execute("alter table lab.d add primary key (id)")
    query = "select id, lower(kind) as kind from {d} as d"
    for has_old_rows, identity, reason in (
        (False, ("kind",), "the replica identity does not carry the old id"),
        (True, ("id",), "the replica identity does not carry the old kind"),
    ):
        lab.follow("d", has_old_rows, identity=identity)
        model = Model(lab, f"lacking_{has_old_rows}", query, rng)
        lab.transact("update lab.d set kind = kind || 'y'")
        model.catch_up()
        assert lab.execute(
            "select action, reason, source_table from lab.rejected where model_name = %s",
            model.name,
        ) == [("U", reason, "lab.d")]
        lab.transact("insert into lab.d values (2, 'x')")
        lab.execute(
            "update cdc.change_log set payload = replace(payload, 'kind', 'type') "
            "where commit_lsn >= %s",
            model.lsn,
        )
        model.catch_up()
        reasons = lab.execute(
            "select reason from lab.rejected where model_name = %s and action = 'I'", model.name
        )
        assert set(reasons) == {("the row has no column kind",)}
        lab.transact("delete from lab.d where id = 2")
    lab.execute("alter table lab.d drop constraint d_pkey")


@pytest.mark.parametrize(("sentence", "_", "query"), cases("refused_rows"))
def test_a_query_that_keeps_no_rows_by_key_is_refused(
    lab: Lab, sentence: str, _: str, query: str
) -> None:
    for table in "abcd":
        lab.follow(table, has_old_rows=True)
    with pytest.raises(psycopg2.Error) as refused:
        lab.compile(query)
    assert (refused.value.pgcode, refused.value.diag.message_primary) == ("WL003", sentence)
    assert refused.value.diag.message_hint


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"surrogate_key": "uid"}, "surrogate_key: rows have the primary key of their table."),
        ({"ignore_deletes": ["lab.a"]}, "ignore_deletes: rows that are gone would stay for good."),
        ({"unique_key": ["kind"]}, "unique_key is not the table's primary key."),
    ],
)
def test_a_setting_that_rows_have_no_use_for_is_refused(
    lab: Lab, options: dict[str, object], sentence: str
) -> None:
    lab.follow("a", has_old_rows=True)
    with pytest.raises(psycopg2.Error, match=re.escape(sentence)):
        lab.compile("select id, kind from {a} as a", **options)
    assert lab.compile("select id, kind from {a} as a", unique_key=["id"])["kind"] == "rows"


def test_a_deferrable_key_needs_old_rows(lab: Lab) -> None:
    lab.follow("c", has_old_rows=False)
    assert lab.compile("select id from {c} as c")["needs_old_rows"]
    with pytest.raises(psycopg2.Error, match="is deferrable") as refused:
        Model(lab, "deferrable", "select id from {c} as c", Random(0))
    assert (
        refused.value.diag.message_hint
        == "Instead: `alter table lab.c replica identity full;`, then `loader setup`."
    )
