"""Models over models while another session fills them, applies their inputs, or waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from testkit.commands import wait_until
from testkit.servers import connect
from tests.queries.life import DEPENDENTS, FILL, JOINED, MODELS, Life
from waltally.database import Connection
from waltally.errors import LoaderError

CAUGHT_UP = "select from cdc.apply(%s, part => 'caught up')"
CHANGES = (
    "update lab.sale set amount = amount + 1 where id < 20",
    # Rows of two inputs that meet, in one transaction and one after the other.
    "insert into lab.shop values (50, 'shop 1'), (51, 'other'); insert into lab.sale values (50, 50, 9), (51, 51, 9)",
    "update lab.shop set name = 'shop 1' where id in (2, 51); delete from lab.sale where id = 51",
    "update lab.shop set name = 'shop 2' where id = 2; insert into lab.sale values (52, 2, 7)",
    "delete from lab.sale where shop_id = 3; delete from lab.shop where id = 3",
)
AT_A_LOCK = "select count(*) from pg_locks where pid = %s and not granted"
AT_ADVISORY = "select count(*) from pg_stat_activity where pid = %s and wait_event = 'advisory'"


@contextmanager
def filling(life: Life, waits: str) -> Iterator[tuple[int, Future[Any]]]:
    """Yield the pid of a session that fills what is to be filled and waits, and how it ends."""
    with (
        closing(connect(life.target.cluster.dsn(life.target.name))) as filler,
        ThreadPoolExecutor() as pool,
    ):
        ((pid,),) = filler.ask("select pg_backend_pid()")
        done = pool.submit(filler.ask, FILL, (life.slot,))
        try:
            wait_until(lambda: life.target.value(waits, pid) == 1, "it waits")
            yield pid, done
        finally:
            # Where the block fails, nothing else would end it.
            if not done.done():
                life.target.execute("select pg_terminate_backend(%s)", pid)


@contextmanager
def at_a_row(life: Life) -> Iterator[tuple[Connection, int, Future[Any]]]:
    """Yield also who keeps the fill at its first row, by the lock that lab.wait takes."""
    with life.other_session() as holder:
        holder.ask("select pg_advisory_xact_lock(1)")
        with filling(life, AT_ADVISORY) as (pid, done):
            yield holder, pid, done


@pytest.mark.parametrize("end", ["full", "killed", "asked"])
@pytest.mark.parametrize("filled", ["named", "most"])
def test_while_a_model_is_filled_all_others_go_on_and_what_changes_is_added_at_its_end(
    life: Life, filled: str, end: str
) -> None:
    """Its statement has its snapshot when it comes to a row, and waits there."""
    table = f"analytics.{filled}"
    life.target.execute("select cdc.ask_to_fill(%s, 'a test asks for it')", table)
    life.target.execute(
        f"create trigger waits before insert on {table} for each row execute function lab.wait()"
    )
    with life.other_session() as applier, at_a_row(life) as (holder, pid, done):
        for change in CHANGES:
            life.source.execute(change)
            life.must("run", "--once")
            life.target.execute(CAUGHT_UP, life.slot)
        others = [
            name for name in DEPENDENTS if name != filled and (filled, name) != ("named", "most")
        ]
        for name in ("sales", "shops", *others):
            assert life.state(name) == ("follows", "", "")
        assert life.differing(*others) == {}
        queued = "select count(distinct xid) from cdc.queued_change where relation = %s"
        assert life.target.value(queued, table) > 2
        if end == "killed":
            life.target.execute("select pg_terminate_backend(%s)", pid)
            assert isinstance(done.exception(), LoaderError)
        elif end == "asked":
            life.target.execute("select cdc.ask_to_fill(%s, 'a test asks for it')", table)
            asked = "select count(*) from cdc.to_fill where relation = %s"
            assert life.target.value(asked, table) == 2
        elif end == "full":
            life.source.execute(CHANGES[0])
            life.must("run", "--once")
            applier.ask(CAUGHT_UP, (life.slot,))
        holder.rollback()
        if end == "full":
            # For who has changed an input and has not committed.
            lock = (
                "select count(*) from pg_locks where pid = %s and not granted and locktype = 'advisory'"
                " and objid <> 1"
            )
            wait_until(lambda: life.target.value(lock, pid) == 1, "it waits at its end")
            applier.commit()
        if end != "killed":
            done.result()
            assert life.differing(filled) == {}
            assert not life.target.value("select cdc.is_to_be_filled(%s)", table)
    life.must_be_exact()
    life.target.execute(f"drop trigger waits on {table}")
    assert life.target.value("select count(*) from cdc.queued_change") == 0


def test_a_fill_that_waits_at_its_end_gives_way_to_who_alters_an_input(life: Life) -> None:
    """As dbt does to widen a column. The server would end one of the two, which is made to be dbt."""
    life.target.execute("select cdc.ask_to_fill('analytics.named', 'a test asks for it')")
    life.target.execute(
        "create trigger waits before insert on analytics.named"
        " for each row execute function lab.wait()"
    )
    patient = f"alter database {life.target.name} {{}} deadlock_timeout {{}}"
    with life.other_session() as builder:
        life.target.execute(patient.format("set", "= '1h'"))
        try:
            with at_a_row(life) as (holder, pid, done):
                key = "select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.sales'))"
                builder.ask(key)
                holder.rollback()
                at_its_end = f"{AT_A_LOCK} and locktype = 'advisory' and objid <> 1"
                wait_until(lambda: life.target.value(at_its_end, pid) == 1, "it waits at its end")
                builder.ask("lock table analytics.sales")
                builder.rollback()
                done.result()
        finally:
            life.target.execute(patient.format("reset", ""))
    life.target.execute("drop trigger waits on analytics.named")
    life.must_be_exact()


def test_a_model_is_not_filled_beside_a_batch_that_has_left_it_out(life: Life) -> None:
    life.target.execute("select cdc.ask_to_fill('analytics.named', 'a test asks for it')")
    life.source.execute(CHANGES[0])
    life.must("run", "--once")
    life.target.execute(
        "create trigger waits before insert on analytics.named"
        " for each row execute function lab.wait()"
    )
    at_a_row = "select count(*) from pg_locks where pid = %s and not granted and objid = 1"
    with life.other_session() as applier, life.other_session() as holder:
        holder.ask("select pg_advisory_xact_lock(1)")
        applier.ask(CAUGHT_UP, (life.slot,))
        with filling(life, AT_A_LOCK) as (pid, done):
            applier.commit()
            # Who changes an input from then on knows that it is being filled.
            wait_until(lambda: life.target.value(at_a_row, pid) == 1, "it is filled")
            life.source.execute(CHANGES[3])
            life.must("run", "--once")
            life.target.execute(CAUGHT_UP, life.slot)
            holder.rollback()
            done.result()
    life.must_be_exact()
    life.target.execute("drop trigger waits on analytics.named")


def test_a_model_that_is_installed_amid_a_batch_has_what_the_batch_changes(life: Life) -> None:
    """Nothing is queued for a model that was not there yet, and its fill does not see the batch."""
    life.source.execute(CHANGES[0])
    life.must("run", "--once")
    halves = "select shop_id % 2 as half, sum(amount) as amount from {sales} group by 1"
    with life.other_session() as applier:
        applier.ask(CAUGHT_UP, (life.slot,))
        life.declare({**MODELS, "halves": (halves, {})})
        life.install_dependents("halves")
        with filling(life, AT_A_LOCK) as (_, done):
            applier.commit()
            done.result()
    life.must_be_exact("halves")


def test_rows_of_two_sessions_that_meet_in_a_model_while_it_is_filled_are_added(
    life: Life,
) -> None:
    """As of two slots, or where Spark applies one of the inputs: neither sees the other's row."""
    move = (
        "select cdc.try_models(array[planned], planned.position_lsn, null, null, 1000)"
        " from cdc.plan_models(%s) as planned where planned.relation = %s"
    )
    life.target.execute("select cdc.ask_to_fill('analytics.named', 'a test asks for it')")
    life.target.execute(
        "create trigger waits before insert on analytics.named"
        " for each row execute function lab.wait()"
    )
    with (
        life.other_session() as one,
        life.other_session() as other,
        at_a_row(life) as (holder, _, done),
    ):
        life.source.execute(
            "insert into lab.shop values (60, 'shop 1'); insert into lab.sale values (60, 60, 9)"
        )
        life.must("run", "--once")
        assert one.ask(move, (life.slot, "analytics.sales")) == [(["analytics.sales"],)]
        assert other.ask(move, (life.slot, "analytics.shops")) == [(["analytics.shops"],)]
        one.commit()
        other.commit()
        holder.rollback()
        done.result()
    assert life.differing("named") == {}
    life.target.execute("drop trigger waits on analytics.named")
    life.must_be_exact()


WAIT = (
    "select cdc.wait_for(slot_name, position_lsn, '10 s', '{names}') from cdc.slot_position"
    " where slot_name = %s"
)


@contextmanager
def waiting_for_names(life: Life) -> Iterator[Future[Any]]:
    """Let a session wait for the model names; it asks for the first time after the block."""
    with (
        closing(connect(life.target.cluster.dsn(life.target.name))) as waiter,
        ThreadPoolExecutor() as pool,
        life.other_session() as holder,
    ):
        holder.ask("lock table cdc.change_log in access exclusive mode")
        ((pid,),) = waiter.ask("select pg_backend_pid()")
        waiting = pool.submit(waiter.ask, WAIT, (life.slot,))
        wait_until(lambda: life.target.value(AT_A_LOCK, pid) == 1, "it waits")
        yield waiting
        holder.rollback()


def leave_behind(life: Life, model: str) -> None:
    """Apply changes of both tables to all models but this one, which somebody has locked."""
    with life.other_session() as other:
        other.ask("select pg_advisory_xact_lock(cdc.lock_key('model', %s))", (model,))
        life.source.execute("update lab.sale set amount = amount + 1; update lab.shop set id = id")
        life.must("run", "--once")
        life.target.execute(CAUGHT_UP, life.slot)
        other.rollback()


def test_a_model_that_waits_to_join_the_others_passes_over_no_gap_that_a_loader_finds(
    life: Life,
) -> None:
    """Its plan is of before it waits for the slot's lock; the others go on meanwhile."""
    leave_behind(life, "analytics.sales")
    life.target.execute(
        "create table public.earlier as select planned, cdc.caught_up_lsn(planned.slot_name)"
        f" from cdc.plan_models('{life.slot}') as planned"
    )
    life.source.execute(
        "insert into lab.sale values (70, 1, 1); alter table lab.sale rename to was;"
        " delete from lab.was where id = 1; alter table lab.was rename to sale;"
        " insert into lab.shop values (70, 'x')"
    )
    life.must("run", "--once")
    life.target.execute(CAUGHT_UP, life.slot)
    life.target.execute(
        "select cdc.apply_catching_up(planned, caught_up_lsn, null, 1000) from public.earlier"
        " where (planned).relation = 'analytics.sales'; drop table public.earlier"
    )
    life.must_say("sales", "waits", "lab.sale was altered: it was renamed")


def test_a_model_is_filled_without_the_slot_s_lock(life: Life) -> None:
    """Those that follow would wait for its end, where another one could not join them."""
    leave_behind(life, "analytics.sales")
    life.declare({**MODELS, "names": ("select name, count(*) as n from {shops} group by 1", {})})
    life.install_dependents("names")
    with life.other_session() as other, life.other_session() as filler:
        other.ask("select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.sales'))")
        filler.ask(FILL, (life.slot,))
        assert filler.ask("select cdc.is_to_be_filled('analytics.names')") == [(False,)]
        assert not life.target.value("select cdc.holder_of(cdc.lock_key('slot', %s))", life.slot)
    life.must_be_exact("names")


def test_who_waits_for_a_model_waits_for_what_it_reads_now(life: Life) -> None:
    """dbt installs it over another input, which is behind, while somebody waits for it."""

    def install(query: str) -> None:
        life.declare({**MODELS, "names": (query, {})})
        life.install_dependents("names")
        life.target.execute("select cdc.fill_dependent(%s, false)", life.slot)
        assert not life.target.value("select cdc.is_to_be_filled('analytics.names')")

    install("select name, count(*) as n from {shops} group by 1")
    leave_behind(life, "analytics.sales")
    assert life.target.value(WAIT, life.slot)
    with waiting_for_names(life) as waiting:
        install(f"select s.name, count(*) as n {JOINED} group by 1")
    assert waiting.result() == [(False,)]
    life.must_be_exact("names")


def test_who_waits_for_a_model_that_is_forgotten_meanwhile_is_told(life: Life) -> None:
    life.declare({**MODELS, "names": ("select name, count(*) as n from {shops} group by 1", {})})
    life.install_dependents("names")
    life.must_be_exact()
    with waiting_for_names(life) as waiting:
        life.must("forget", "names")
    with pytest.raises(LoaderError, match=r"no model of slot .* is named names"):
        waiting.result()


def test_a_model_that_dbt_installs_while_its_inputs_are_waited_for_does_not_fail(
    life: Life,
) -> None:
    dsn = life.target.cluster.dsn(life.target.name)
    query, _ = MODELS["named"]
    with closing(connect(dsn)) as builder:
        builder.ask("select pg_advisory_lock(cdc.lock_key('model', 'analytics.sales'))")
        life.target.execute("select cdc.ask_to_fill('analytics.named', 'a test asks for it')")
        with filling(life, AT_ADVISORY) as (_, done):
            life.declare({**MODELS, "named": (query.replace("sum(a.n)", "2 * sum(a.n)"), {})})
            life.install_dependents("named")
            builder.ask("select pg_advisory_unlock_all()")
            done.result()
    assert life.state("named")[0] == "waits"
    life.must_be_exact()
