"""What happens between two reads of a job: it begins again, or says what is so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.servers import Cluster, connect
from tests.spark.kept import BOTH, CHANNELS, LISTED, Kept
from tests.spark.support import meanwhile

pytestmark = pytest.mark.usefixtures("spark")

FOLLOWED: dict[str, tuple[str, dict[str, Any]]] = {
    "both": (BOTH, {}),
    "listed": (LISTED, {}),
    "channels": (CHANNELS, {}),
}


@pytest.fixture
def followed(cluster: Cluster, tmp_path: Path) -> Iterator[Kept]:
    """Models over tables, and one over one of them, that are right."""
    with empty_database(cluster) as database:
        made = Kept(database, tmp_path)
        made.write(60)
        made.write(20, "old_orders")
        made.keep(FOLLOWED)
        made.must("run", "--once")
        made.must_run("seed")
        made.catch_up()
        yield made


def test_what_an_attempt_of_an_audit_could_not_compare_the_next_one_does(
    followed: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody held the model while the first one was made, which then began again for DDL."""
    with followed.follow("--build"), closing(connect(followed.dsns[1])) as holder:

        def hold() -> None:
            holder.ask("select pg_advisory_lock(cdc.lock_key('model', 'analytics.both'))")
            followed.write(5)

        def let_go() -> None:
            holder.ask("select pg_advisory_unlock_all()")
            followed.source.execute("vacuum full orders")

        meanwhile(monkeypatch, "auditing.stopped._exported", before=hold)
        meanwhile(monkeypatch, "common.arrow.collected", before=let_go)
        report = followed.audit()
    assert "begins again" in followed.said and sorted(report["models"]) == ["both", "listed"]


def test_a_model_that_is_forgotten_amid_an_audit_is_named(
    followed: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(
        monkeypatch, "auditing.dependents.compare", lambda: followed.must("forget", "channels")
    )
    with followed.follow("--build"):
        code, out, err = followed.run("audit")
    assert code and "channels" in err and "Traceback" not in err, out + err


@pytest.mark.parametrize("moment", ["seeding.job.follow", "seeding.ignored_deletes.apply"])
def test_a_model_that_is_forgotten_amid_a_seed_is_named(
    purging: Kept, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    meanwhile(monkeypatch, moment, lambda: purging.must("forget", "purged"))
    with purging.follow():
        _, out, err = purging.run("seed")
    assert "purged" in err and "Traceback" not in err, out + err


def test_a_seed_begins_again_where_the_log_has_begun_again_since_its_snapshot(
    followed: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, "evaluation.checks.not_older", lambda: followed.must("setup", "--renew"))
    code, out, err = followed.run("seed")
    assert not code and "the seed begins again" in err, out + err
    followed.catch_up()
    assert {*followed.states().values()} == {"follows"}


MOODS: dict[str, tuple[str, dict[str, Any]]] = {
    "moods": ("select mood, count(*) as n from {orders} group by 1", {})
}
RENAME = "alter type mood rename value 'sad' to 'blue'"


@pytest.fixture
def moody(cluster: Cluster, tmp_path: Path) -> Iterator[Kept]:
    """A model in another database than its table, grouped by an enum; nothing is seeded."""
    with empty_database(cluster) as database, empty_database(cluster) as target:
        made = Kept(database, tmp_path, target)
        made.source.execute(
            "create type mood as enum ('sad', 'glad'); alter table orders add mood mood"
        )
        made.write(60)
        made.source.execute("update orders set mood = 'sad'")
        made.keep(MOODS)
        yield made


def test_an_audit_does_not_call_a_label_that_got_another_name_amid_it_a_difference(
    moody: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    moody.must_run("seed")
    moody.catch_up()
    meanwhile(monkeypatch, "common.arrow.collected", lambda: moody.source.execute(RENAME))
    with moody.follow("--build"):
        code, out, err = moody.run("audit")
    assert code and "differs" not in out + err and "'blue' now" in err, out + err


def test_a_seed_counts_a_label_as_it_was_called_at_its_snapshot(
    moody: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No loader has seen the table before: it takes the labels for those that the seed saw."""
    insert = "insert into orders (mood) values ('sad')"

    def rename() -> None:
        moody.source.execute(insert)
        moody.source.execute(RENAME)

    meanwhile(monkeypatch, "evaluation.snapshot.wait_until_safe", rename)
    moody.must_run("seed")
    moody.must("run", "--once")
    moody.apply()
    assert moody.target.execute("select mood::text, n from analytics.moods") == [("blue", 61)]


def test_a_column_that_gets_another_name_before_ranges_are_cut_is_named(
    followed: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "alter table orders rename amount to price"
    meanwhile(monkeypatch, "evaluation.queries._ranges", lambda: followed.source.execute(other))
    code, out, err = followed.run("seed")
    assert code and "amount" in err and "Traceback" not in err, out + err


@pytest.mark.parametrize(
    "query",
    [
        BOTH.replace("sum(amount) as amount", "avg(amount) as mean"),
        BOTH.replace("sum(amount) as amount", "sum(amount) as amount, avg(amount) as mean"),
    ],
)
def test_a_model_that_gets_another_query_amid_an_audit_is_no_difference(
    followed: Kept, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    def change() -> None:
        followed.keep({**FOLLOWED, "both": (query, {})}, is_refresh=False)
        followed.must_run("seed")

    with followed.follow("--build"):
        meanwhile(monkeypatch, "auditing.job.report", change)
        _, out, err = followed.run("audit")
    assert "differs" not in out + err and "both" in err and "Traceback" not in err, out + err
    assert "listed: 0 differences" in out, out


@pytest.mark.parametrize(
    "changed",
    [
        {"channels": CHANNELS.replace("sum(amount)", "avg(amount) as mean, sum(amount)")},
        {"channels": CHANNELS.replace("sum(amount) as amount", "sum(id) as ids")},
        {"listed": LISTED.replace("amount", "amount * 2 as amount")},
    ],
)
def test_a_model_over_models_that_gets_another_query_amid_an_audit_is_no_difference(
    followed: Kept, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    def change() -> None:
        models: dict[str, tuple[str, dict[str, Any]]] = {
            name: (changed.get(name, query), {}) for name, (query, _) in FOLLOWED.items()
        }
        followed.keep(models, is_refresh=False)
        if "listed" in changed:
            followed.must_run("seed")
        wait_until(lambda: {*followed.states().values()} == {"follows"}, "all are built")

    meanwhile(monkeypatch, "auditing.dependents.print_status", change)
    with followed.follow("--build"):
        _, out, err = followed.run("audit")
    assert "differs" not in out + err and "channels" in err and "Traceback" not in err, out + err
    assert "run the audit again" in err, err
