"""What the target evaluates for a seed is what the source would have given."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from waltally_jobs.evaluation import places

from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster, connect_target
from tests.queries.odd import Writer
from tests.queries.test_facts import MODELS
from tests.spark.odd import LAB, NAMES
from tests.spark.support import Source, meanwhile
from waltally.models import Model, ModelTable
from waltally.tables import Table

# Of values that are equal a group may have any: numerics, -0 and 0, a day and 24 hours.
BASELINE = (
    "select model_name, part, dimensions, array_agg(coalesce(total, 0) order by ordinal) from ("
    " select model_name, part, array(select coalesce(trim_scale(substring(d from '^-?[0-9]+[.][0-9]+$')::numeric)::text,"
    " case d when '-0' then '0' else replace(replace(d, chr(34) || '1 day' || chr(34), '24:00:00'), '1 day', '24:00:00') end)"
    " from unnest(dimensions) with ordinality as one (d, n) order by n) as dimensions, ordinal, sum(measure) as total"
    " from cdc.baseline_group cross join unnest(measures) with ordinality as u (measure, ordinal) group by 1, 2, 3, 4"
    ") as t group by 1, 2, 3 order by 1, 2, 3"
)
REJECTED = "select model_name, part, reason, row_count from cdc.baseline_rejection order by 1, 2, 3"


def test_the_target_evaluates_the_rows_that_the_source_would(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of every kind, of several tables, and rows that the query cannot take."""
    german = "template template0 locale_provider icu icu_locale 'de' lc_collate 'C' lc_ctype 'C'"
    with empty_database(cluster, options=german) as database:
        database.execute(
            LAB + "; create table lab.none (id integer primary key);"
            "create extension citext schema public;"
            "create table lab.tags (id integer primary key, tag public.citext, tags public.citext[]);"
            "alter table lab.tags replica identity full"
        )
        system = QuerySystem(database, tmp_path)
        # To seed again what ignores deletes takes a loader that follows.
        models = {name: MODELS[name] for name in NAMES if not name.startswith("purged")}
        deep = "select name::jsonb ->> 0 as k, count(*) as n from {b} group by 1"
        fails = "select 1 / 0 as x, count(*) as n from {none} group by 1"
        ours = "select tag = 'A' as is_a, tags, count(*) as n from {tags} group by 1, 2"
        alone = {"deep": deep, "fails_without_a_row": fails, "of_extension": ours}
        system.keep({**models, **{name: (query, {}) for name, query in alone.items()}})
        writer = Writer(system.source, Random(2), truncates=False)  # type: ignore[arg-type]
        writer.write(250)
        # A column's own collation counts in both.
        system.source.execute(
            "insert into lab.b (id, name, label, tags) values (-1, 'ä', 'ü', '{ä,z}'),"
            " (-2, repeat('[', 20000), '', '{}');"
            "insert into lab.tags values (1, 'a', '{a}'), (2, 'A', '{a}'), (3, 'b', null), (4, null, '{B}')"
        )
        found = []
        for moves in (False, True):
            monkeypatch.setattr(places, "differ", lambda *_, moves=moves: moves)
            system.spark_job("spark-submit spark/seed.py")
            found.append([database.execute(query) for query in (BASELINE, REJECTED)])
    assert len(found[0][0]) > 50
    assert ("deep", "lab.b", "stack depth limit exceeded", 1) in found[0][1]
    assert found[1] == found[0]
    assert ("of_extension", "lab.tags", ["true", "{a}"], [2]) in found[0][0]


def test_a_source_without_our_functions_refuses_the_rows_that_the_stream_refuses(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Keys are whole there too, and a sum that is not finite is its row's fault.

    But in a column such a value is null, also in one of a domain. char(n) keeps its blanks.
    """
    with empty_database(cluster) as source, empty_database(cluster) as target:
        source.execute(LAB)
        system = QuerySystem(source, tmp_path, target)
        query = (
            "select price, raw, count(*) as n, sum(name::numeric) as s, sum(amount) as amount"
            " from {a} group by 1, 2"
        )
        source.execute(
            "create table lab.odd (k numeric, b bytea, primary key (k, b));"
            "alter table lab.odd replica identity full"
        )
        pads = "select id, pad from {a}"
        system.keep(
            {"numbers": (query, {}), "keys": ("select k, b from {odd}", {}), "pads": (pads, {})}
        )
        insert = (
            "insert into lab.a (id, price, raw, name, amount) values (%s, 1.50, '00', '1', 'NaN'),"
            " (%s, repeat('9', 1200)::numeric, '00', '1', 0), (%s, 2, repeat('x', 1200)::bytea, '1', 0),"
            " (%s, 1.5, '00', 'NaN', 0), (%s, 1.5, '00', '-Infinity', 0)"
        )
        source.execute("alter table lab.a alter pad set default 'ab'")
        keys = (
            "insert into lab.odd values (1, %s), ('NaN', %s), ('-Infinity', %s),"
            " (%s, decode(repeat('00', 4000), 'hex'))"
        )
        source.execute(insert, *range(5))
        source.execute(keys, "a", "a", "c", 7)
        system.spark_job("spark-submit spark/seed.py")
        source.execute(insert, *range(5, 10))
        source.execute(keys, "b", "b", "d", 8)
        system.catch_up()
        found = (
            "select left(trim_scale(price)::text, 5), length(raw), n, s::text, amount"
            " from analytics.numbers order by price"
        )
        assert target.execute(found) == [
            ("1.5", 2, 2, "2", None),
            ("2", 1200, 2, "2", 0),
            ("99999", 2, 2, "2", 0),
        ]
        lengths = "select octet_length(pad), count(*) from analytics.pads group by 1"
        assert target.execute(lengths) == [(4, 10)]
        assert target.execute("select count(*) from analytics.keys") == [(2,)]
        rejected = "select model_name, part, reason, row_count from cdc.baseline_rejection"
        seeded = target.execute(f"{rejected} order by 1, 3")
        assert [(name, count) for name, _, _, count in seeded] == [
            ("keys", 1),
            ("keys", 2),
            *[("numbers", 1)] * 2,
        ]
        # Each reason is the same: else one that was in an archive's baseline would not go.
        streamed = (
            "select split_part(model_name, '.', 2), source_table, reason, count(*)"
            " from analytics.rejected_changes where action = 'I' group by 1, 2, 3 order by 1, 3"
        )
        assert target.execute(streamed) == seeded
        source.execute("delete from lab.a; delete from lab.odd")
        system.catch_up()
        assert target.execute(found) == []
        assert target.execute("select count(*) from analytics.keys") == [(0,)]


def test_other_time_zone_data_and_extensions_are_told(source: Source, cluster: Cluster) -> None:
    """Servers of other encodings are in test_audit_queries.py."""
    zoned, plain = (
        [Model("m", Table("lab", "m"), {"is_zoned": is_zoned, "sources": []})]
        for is_zoned in (True, False)
    )
    tag = {"columns": [{"type": "public.citext"}]}
    tagged = [Model("m", Table("lab", "m"), {"is_zoned": False, "sources": [tag]})]
    with empty_database(cluster) as other, closing(connect_target(source.dsn)) as target:
        assert not places.differ(source.connection, target, zoned)
        assert not places.differ(other.connection, target, zoned)
        target.ask(
            "create or replace function cdc.zone_data() returns text language sql"
            " as 'select current_database()::text'"
        )
        assert places.differ(other.connection, target, zoned)
        assert not places.differ(other.connection, target, plain)
        assert not places.differ(other.connection, target, tagged)
        other.execute("create extension citext")
        assert places.differ(other.connection, target, tagged)
        assert not places.differ(other.connection, target, plain)


def test_rows_of_many_groups_are_moved_and_small_partitions_together(
    system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_FEW_PAGES", 0)
    system.source.execute(
        "create table lab.parts (id int, code text) partition by list (code);"
        "create table lab.parts_a partition of lab.parts for values in ('a');"
        "create table lab.parts_b partition of lab.parts default;"
        "alter table lab.parts_a replica identity full;"
        "alter table lab.parts_b replica identity full;"
        "insert into lab.parts values (1, 'a'), (2, 'a'), (3, 'b');"
        "insert into lab.a (id, flag) select n, n % 2 = 0 from generate_series(1, 20000) as n"
    )
    system.keep(
        {
            "few": ("select flag, count(*) as n from {a} group by 1", {}),
            "many": ("select id, count(*) as n from {a} group by 1", {}),
            "parted": ("select id, code, count(*) as n from {parts} group by 1, 2", {}),
        }
    )
    moved: list[tuple[Model, ModelTable]] = []
    meanwhile(monkeypatch, "evaluation.places.parts_to_move", after=moved.extend)
    system.spark_job("spark-submit spark/seed.py")
    assert [model.name for model, _ in moved] == ["many", "parted"]
    system.catch_up()
    for name, count in (("few", 2), ("many", 20000), ("parted", 3)):
        assert system.target.value(f"select count(*) from analytics.{name}") == count
        query = system.models[name][0].replace('"db".', "")
        assert system.compare(f"select * from analytics.{name}", query) == []
