"""An audit compares models that are queries with their queries, all at one position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster, connect
from tests.spark.kept import DEPENDENTS, MODELS, Kept, made
from waltally import lsn


@pytest.fixture(params=["one database", "two"])
def kept(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kept]:
    with made(cluster, tmp_path, request.param == "two", WAREHOUSE) as own:
        yield own


@pytest.fixture(scope="module")
def right(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """The same in one database, for tests that leave the models right."""
    with made(cluster, tmp_path_factory.mktemp("right")) as shared:
        yield shared


one_database = pytest.mark.parametrize("kept", ["one database"], indirect=True)


def found_in(report: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """Return by column how much more the model has, or which side lacks the group."""
    model = report["models"].get(name) or report["over_models"][name]
    assert model["difference_count"] == len(model["differences"])
    found = []
    for each in model["differences"]:
        own, counted = each["model"], each["counted"]
        more = "missing" if own is None else "surplus" if counted is None else ""
        column = each.get("measure") or each["column"]
        found.append((column, more or f"{(Decimal(own) - Decimal(counted)).normalize():f}"))
    return sorted(found)


@contextmanager
def written(kept: Kept) -> Iterator[None]:
    """Within the block up to 2,000 changes a second of every kind, to orders of its own."""
    stop = Event()
    mine = "channel in ('live', 'moved') order by id"

    def write() -> None:
        with closing(connect(kept.dsns[0])) as session:
            while not stop.wait(0.05):
                for statement in (
                    "insert into orders (channel, status, amount, discount, note) select 'live',"
                    " (array['new', 'paid'])[1 + n % 2], n, 1, (n % 5)::text"
                    " from generate_series(1, 40) as n",
                    "update orders set channel = 'moved', amount = amount + 0.01"
                    f" where id in (select id from orders where {mine} desc limit 30)",
                    "insert into old_orders (channel, amount)"
                    " select 'live', n from generate_series(1, 6) as n",
                    f"delete from orders where id in (select id from orders where {mine} limit 20)",
                    f"delete from old_orders where id in (select id from old_orders where {mine}"
                    " limit 4)",
                ):
                    session.ask(statement)

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def test_models_equal_their_queries_while_everything_is_written_and_applied(kept: Kept) -> None:
    with kept.follow("--build"), written(kept):
        for _ in range(3):
            report = kept.audit()
            at = report["snapshot_lsn"]
            assert {each["model_lsn"] for each in report["models"].values()} == {at}
            compared = {**report["models"], **report["over_models"]}
            assert compared.keys() == MODELS.keys()
            assert all(each["group_count"] for each in compared.values())
            assert int(report["models"]["purged"]["purged"]["order_count"]) > 0
            kept.target.execute("select from cdc.apply(%s)", kept.slot)
            applied = kept.target.value("select min(applied_lsn)::text from cdc.model_watermark")
            assert lsn.parse(applied) > lsn.parse(at)


PAID = "id = (select {}(id) from analytics.paid where channel in ('shop', 'web') and amount > 0)"
BY_DAY = "channel = '{}' and day = '2026-03-29'"
GROUPS = {
    **dict.fromkeys(
        ("purged", "channels", "spread"),
        ("channel = 'shop'", "channel = 'web'", "channel = 'none'"),
    ),
    "by_day": (BY_DAY.format("shop"), BY_DAY.format("web"), "channel = 'none'"),
    "numbers": ("digit = 7", "digit = 8", "digit = 77"),
    "paid": (PAID.format("min"), PAID.format("max"), "id = -1"),
}
"""By model a group that is changed, one that gets another key, and a key that no group has.

The writer leaves them alone.
"""


def change_values(kept: Kept, name: str, group: str) -> list[tuple[str, str]]:
    """A count off by one, a sum off by a cent: every column that the model keeps."""
    if name == "paid":
        # A row has no number: its text is another one.
        kept.target.execute(f"update analytics.paid set amount = amount + 0.01 where {group}")
        return [("rows", "missing"), ("rows", "surplus")]
    more = {
        column: "0.01" if column.endswith(("amount", "net", "highest")) else "1"
        for column in kept.columns(name)
    }
    changes = ", ".join(f"{column} = {column} + {number}" for column, number in more.items())
    kept.target.execute(f"update analytics.{name} set {changes} where {group}")
    return list(more.items())


@one_database
def test_what_is_wrong_in_any_kind_of_model_is_found_while_everything_is_written(
    kept: Kept,
) -> None:
    """Values that are changed, a group that is missing, and one too many."""
    with written(kept), kept.follow("--build"):
        wanted = {"total": change_values(kept, "total", "true")}
        for name, (changed, taken, key) in GROUPS.items():
            wanted[name] = change_values(kept, name, changed)
            kept.target.execute(f"update analytics.{name} set {key} where {taken}")
            columns = ["rows"] if name == "paid" else kept.columns(name)
            wanted[name] += [(each, side) for each in columns for side in ("missing", "surplus")]
        report = kept.audit(code=42)
    for name, found in wanted.items():
        assert found_in(report, name) == sorted(found), name
    assert found_in(report, "listed") == []


@one_database
def test_a_change_that_the_log_lost_is_found_while_everything_is_written(kept: Kept) -> None:
    with written(kept):
        kept.source.execute(
            "insert into orders (placed_at, channel, status, amount, discount, note)"
            " values ('2026-03-29 12:00+00', 'shop', 'paid', 2.5, 1, '1717')"
        )
        kept.must("run", "--once")
        lose = "delete from cdc.change_log where payload ~ '\"1717\"' returning 1"
        assert kept.target.execute(lose) == [(1,)]
        with kept.follow("--build"):
            report = kept.audit(code=42)
    for name, lost_by in {
        **{"numbers": ("n", "-1"), "by_day": ("amount", "-2.5"), "purged": ("order_count", "-1")},
        **{"total": ("net", "-1.5"), "paid": ("rows", "missing"), "listed": ("rows", "missing")},
    }.items():
        assert lost_by in found_in(report, name), name
    # A dependent is what its query gives over rows that lack one.
    assert [found_in(report, name) for name in DEPENDENTS] == [[], []]


def test_rows_that_a_query_cannot_take_are_no_difference_and_are_listed(right: Kept) -> None:
    right.source.execute("insert into orders (note) select 'no number' from generate_series(1, 2)")
    right.source.execute("update orders set note = 'neither' where id = 3")
    with right.follow():
        report = right.audit()
    model = report["models"]["numbers"]
    assert model["rejected_rows"] == [
        {
            "source_table": "public.orders",
            "reason": f'invalid input syntax for type integer: "{text}"',
            "row_count": count,
        }
        for text, count in (("neither", 1), ("no number", 2))
    ]
    assert model["rejected"]["count"] == 3
    assert report["models"]["total"]["rejected_rows"] == []


@one_database
def test_when_a_model_was_found_equal_is_said_until_it_is_built_again(kept: Kept) -> None:
    def when() -> dict[str, Any]:
        models = json.loads(kept.must("status", "--json"))["models"]
        found = {model["name"]: model["audited_at"] for model in models}
        known = "select model_name from cdc.model_state where audited_at is not null"
        states = kept.target.execute(known)
        assert {name for (name,) in states} == {name for name, at in found.items() if at}
        return found

    with kept.follow():
        assert not any(when().values())
        kept.target.execute("update analytics.total set net = net + 0.01")
        kept.audit(code=42)
        first = when()
        assert {name for name, at in first.items() if at is None} == {"total"}
        assert "never" in kept.must("status") and " ago" in kept.must("status")
        kept.target.execute("update analytics.total set net = net - 0.01")
        kept.audit("--model", "total")
        assert when() == {**first, "total": when()["total"]} and when()["total"]
        # As after a major upgrade.
        kept.target.execute("update cdc.model_watermark set major_version = 12")
        reasons = "select count(reason) from cdc.model_state where state = 'follows'"
        built = "select count(*) from cdc.model_watermark"
        assert kept.target.value(reasons) == kept.target.value(built)
        said = kept.loader("status").stdout
        assert "follow: the server's major version changed since" in said
        kept.audit()
        assert kept.target.value(reasons) == 0
        # What is applied leaves it; a seed does not.
        kept.write(5)
        kept.wait_for_log()
        kept.apply()
        assert when()["total"]
        kept.must_run("seed", "--model", "total")
        # Until the log is at its position, the model stays on its former baseline.
        kept.wait_for_log()
        kept.apply()
        assert {name for name, at in when().items() if at is None} == {"total"}


# A transaction that writes, and what holds the models.


def test_a_long_transaction_is_named_and_others_apply_meanwhile(
    right: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    with right.follow("--build"), closing(connect(right.dsns[0])) as writer:
        pid = writer.info.backend_pid
        writer.autocommit = False
        writer.ask("insert into orders (channel) values ('open')")
        code, _, err = right.run("audit", "--hold", "0.2", "--timeout", "1")
        assert code == 29, err
        assert f"pid {pid}" in err and "open for" in err and "--hold" in err
        assert "Nothing was changed." in err
        # What others write is applied all the same.
        right.source.execute("insert into orders (channel) values ('meanwhile')")
        counted = "select order_count from analytics.purged where channel = 'meanwhile'"
        wait_until(lambda: right.target.execute(counted) == [(1,)], "it is applied")
        writer.rollback()
        right.audit()


def test_who_holds_a_model_is_named_and_the_others_are_compared(right: Kept) -> None:
    right.write(3)
    with right.follow(), closing(connect(right.dsns[1])) as other:
        right.wait_for_log()
        other.autocommit = False
        other.ask("select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.by_day'))")
        report = right.audit("--hold", "2", "--timeout", "20", code=41)
        other.rollback()
        assert set(report["refused"]) == {"by_day"}
        assert "is at" in report["refused"]["by_day"]
        assert all(model["equal"] for model in report["models"].values())
        right.audit()
        # A session that applies for long holds all of them.
        other.ask("select cdc.apply(%s)", (right.slot,))
        code, _, err = right.run("audit", "--timeout", "1")
        assert (code, f"pid {other.info.backend_pid}" in err) == (41, True), err
        other.rollback()


def test_servers_that_differ_are_compared_by_the_target(cluster: Cluster, tmp_path: Path) -> None:
    """At the source lower() knows no Ü, Z comes before it, and its texts have fewer bytes."""
    locale = "template template0 encoding '{}' lc_collate '{}' lc_ctype '{}'"
    german = " locale_provider icu icu_locale 'de'"
    with (
        empty_database(cluster, options=locale.format("LATIN1", "C", "C")) as source,
        empty_database(
            cluster, options=locale.format("UTF8", "C.UTF-8", "C.UTF-8") + german
        ) as target,
    ):
        kept = Kept(source, tmp_path, target)
        kept.keep(
            {
                "lower": ("select lower(note) as note, count(*) as n from {orders} group by 1", {}),
                "inverse": ("select count(*) as n, sum(1 / (id - 2)) as x from {orders}", {}),
                "all": ("select id, initcap(note || ' ä') as note from {orders}", {}),
                "ends": ("select min(note) as first, max(note) as last from {all}", {}),
            }
        )
        insert = (
            "insert into orders (note) select case n when 6 then 'z' when 7 then repeat('é', 700)"
            " else 'Ü' || n % 2 end from generate_series(1, 7) as n"
        )
        kept.source.execute(insert)
        kept.must_run("seed")
        kept.source.execute(insert)
        kept.must("run", "--once")
        kept.apply()
        rows = "select left(note, 2), n from analytics.lower order by note"
        assert kept.target.execute(rows) == [("éé", 2), ("ü0", 4), ("ü1", 6), ("z", 2)]
        assert kept.target.execute("select left(first, 2), last from analytics.ends") == [
            ("Éé", "Z Ä")
        ]
        with kept.follow():
            report = kept.audit()
            assert report["models"]["inverse"]["rejected_rows"][0]["row_count"] == 1
            kept.target.execute("update analytics.lower set n = n + 1 where note = 'ü0'")
            assert kept.audit(code=42)["models"]["lower"]["difference_count"] == 1


def test_a_changed_query_is_audited_by_the_one_that_is_applied(right: Kept) -> None:
    """The last test of `right`, which leaves a model wrong."""
    right.keep({**MODELS, "total": ("select count(*) + 1 as order_count from {orders}", {})})
    right.apply()
    right.write(10)
    with right.follow("--build"):
        assert "total" in right.audit()["models"]
        right.target.execute("update analytics.total set net = net + 0.01")
        assert right.audit(code=42)["models"]["total"]["difference_count"] == 1
