"""The life of models over models: what they and their inputs go through."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from testkit.commands import wait_until
from tests.queries.life import FILL, JOINED, MODELS, Life
from waltally.errors import LoaderError


def test_a_model_that_fails_is_filled_again_and_its_inputs_and_neighbours_go_on(life: Life) -> None:
    life.source.execute(
        "insert into lab.sale values (100, 1, 2000000000), (101, 1, 2000000000), (102, 0, 1);"
        " insert into lab.shop values (0, 'zero')"
    )
    life.catch_up()
    remedy = (
        "cast what is summed to numeric in the query (`sum(x::numeric)`), or its total to a wider"
        " type, then `dbt build`"
    )
    assert life.state("narrow") == ("failed", "integer out of range", remedy)
    remedy = (
        "compute it in the rows model below, where a row that it cannot take is listed in"
        " rejected_changes, then `dbt build`"
    )
    assert life.state("halved") == ("failed", "division by zero", remedy)
    assert life.state("sales")[0] == "follows"
    life.must_be_exact("named", "most")
    asked = (
        "select failures, round(extract(epoch from retry_at - clock_timestamp()))::int"
        " from cdc.dependent_model where model_name = 'narrow'"
    )
    ((before, _),) = life.target.execute(asked)
    for _ in range(3):
        life.try_again()
    ((failures, pause),) = life.target.execute(asked)
    assert failures == before + 3 and pause >= 2 ** (failures - 1) - 2
    held = "select cdc.wait_for(slot_name, position_lsn, '100ms', array[%s]) from cdc.slot_position"
    assert life.target.value(held, "named") and not life.target.value(held, "narrow")
    life.source.execute("delete from lab.sale where id = 101; delete from lab.shop where id = 0")
    for _ in range(2):
        life.try_again()
    life.must_be_exact()


def test_more_changed_rows_than_it_follows_fill_it_again(life: Life) -> None:
    limit = "create or replace function cdc.changed_rows_limit() returns bigint language sql immutable as"
    life.source.execute("update lab.sale set amount = amount + 1")
    life.must("run", "--once")
    life.target.execute(f"{limit} 'select 3::bigint'")
    try:
        life.target.execute("select from cdc.apply(%s, part => 'caught up')", life.slot)
    finally:
        life.target.execute(f"{limit} 'select 50000::bigint'")
    life.must_say("named", "waits", "more rows of analytics.sales changed at once than it follows")
    life.must_say("most", "waits", "analytics.named, which it reads, is to be filled first")
    failed = (
        "update cdc.dependent_model set error = 'no', remedy = 'do it' where model_name = 'named'"
    )
    life.target.execute(failed)
    assert life.state("most") == ("waits", "analytics.named, which it reads, failed: no", "do it")
    exact = "select cdc.exact_as_of(slot_name, %s) is not null from cdc.slot_position"
    assert not life.target.value(exact, "most") and life.target.value(exact, "sales")
    life.must_be_exact()


def test_a_model_that_somebody_has_locked_is_filled_afterwards_and_says_so(life: Life) -> None:
    with life.other_session() as holder:
        holder.ask("lock table analytics.named in share mode")
        life.source.execute("update lab.sale set amount = amount + 1 where id = 3")
        life.catch_up()
        builds = "`loader run --build` or `dbt build`"
        life.must_say("named", "waits", "it could not be locked: ", builds)
        asked = "select count(*) from cdc.to_fill where relation = 'analytics.named'"
        for _ in range(3):
            life.try_again()
        assert life.target.value(asked) == 1
        life.must_be_exact("narrow", "halved")
        life.target.execute("update cdc.to_fill set asked_at = asked_at - interval '1 hour'")
        said = life.loader("status").stdout
        assert "the model named was not built for 1.0 h" in said, said
        holder.rollback()
    life.try_again()
    life.must_be_exact()


def test_an_index_that_a_model_lacks_is_made_before_it_is_filled(life: Life) -> None:
    """Whoever fills holds its lock on the input's table until the end."""
    indexes = (
        "select indexrelid::regclass::text from pg_index join pg_class as c on c.oid = indexrelid"
        " where relname ~ '^waltally_' order by 1"
    )
    kept = life.target.execute(indexes)
    for (name,) in kept:
        life.target.execute(f"drop index {name}")
    life.target.execute("select cdc.ask_to_fill('analytics.most', 'a test asks for it')")
    life.target.execute(FILL, life.slot)
    life.must_say("most", "waits", "a test asks for it")
    assert kept and life.target.execute(indexes) == kept
    life.target.execute(FILL, life.slot)
    life.must_be_exact()


def test_a_model_of_which_one_input_is_behind_the_other_says_so(life: Life) -> None:
    with life.other_session() as other:
        other.ask("select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.shops'))")
        life.source.execute("insert into lab.shop values (9); insert into lab.sale values (90, 9)")
        life.must("run", "--once")
        life.target.execute("select from cdc.apply(%s)", life.slot)
        assert life.state("shops")[0] == "follows"
        builds = "`loader run --build` or `dbt build`"
        life.must_say("named", "waits", "it reads are at different positions", builds)
        other.rollback()
    life.must_be_exact()


def test_a_model_that_setup_forgets_while_dbt_installs_it_is_filled(life: Life) -> None:
    """Nobody tells it of what its inputs change in between."""
    with life.other_session() as setup, ThreadPoolExecutor() as pool:
        setup.ask("delete from cdc.dependent_model where model_name = 'named'")
        installing = pool.submit(life.install_dependents, "named")
        waiting = "select count(*) from pg_stat_activity where wait_event = 'transactionid'"
        wait_until(lambda: setup.ask(waiting) == [(1,)], "it waits")
        setup.commit()
        installing.result()
    assert life.state("named")[1] == "it is to be filled from its inputs: it is new"
    life.must_be_exact()


def test_what_a_model_over_models_was_asked_before_it_became_another_one_holds_nobody_up(
    life: Life,
) -> None:
    """An apply may ask while setup forgets the model over models that it was."""
    life.target.execute("insert into cdc.to_fill values ('analytics.shops', 'it was one')")
    life.must_be_exact()
    life.target.execute("delete from cdc.to_fill")


def test_a_copy_that_reads_production_s_models_is_named_by_its_relation(life: Life) -> None:
    """As of a developer who builds it alone, by dbt's --defer: its trouble stays there."""
    life.target.execute("create schema dev")
    life.install_dependents("named", "dev")
    life.must_be_exact()
    assert life.state("dev.named") == ("follows", "", "")
    life.target.execute("update cdc.dependent_model set error = 'no' where relation ~ '^dev'")
    assert life.state("dev.named")[0] == "failed"
    wait = "select cdc.wait_for(slot_name, position_lsn, '100ms') from cdc.slot_position"
    assert life.target.value(wait)
    assert "dev.named failed: no" in life.must("status")
    life.target.execute(
        "drop schema dev cascade; delete from cdc.dependent_model where error = 'no'"
    )


def test_an_audit_s_comparison_finds_a_row_that_is_missing_and_another_value(life: Life) -> None:
    query = life.target.value(
        "select cdc.write_difference(declaration, 'analytics.named', 9)"
        " from cdc.dependent_model where model_name = 'named'"
    )
    assert life.target.execute(query) == [(3, 0, [])]
    life.target.execute(
        "delete from analytics.named where name = 'shop 0';"
        " update analytics.named set n = n + 1 where name = 'shop 1'"
    )
    ((_, _, first),) = life.target.execute(query)
    found = {(*keys, column): (own, counted) for keys, column, own, counted in first}
    assert found["shop 0", "n"][0] is None
    own, counted = found["shop 1", "n"]
    assert int(own) == int(counted) + 1


def test_an_input_that_is_emptied_dropped_or_built_again_by_hand(life: Life) -> None:
    refresh = "update cdc.installed_model set is_refresh_asked = true where model_name = 'sales'"
    life.target.execute("truncate analytics.sales")
    life.target.execute(refresh)
    life.must_be_exact()

    life.target.execute("alter table analytics.sales rename to elsewhere")
    life.source.execute("update lab.sale set amount = amount + 1; update lab.shop set name = 'a'")
    life.catch_up()
    assert life.state("sales")[0] == "failed"
    for name in ("named", "narrow", "halved"):
        state, reason, remedy = life.state(name)
        assert state in ("waits", "failed") and reason and remedy
    life.target.execute("alter table analytics.elsewhere rename to sales")
    life.try_again()
    life.try_again()
    life.must_be_exact()

    life.source.execute("truncate lab.sale")
    life.must_be_exact()
    life.source.execute("insert into lab.sale values (1, 2, 3)")
    life.must_be_exact()


OF_AN_INPUT = (
    "analytics.shops, which it reads, has other columns or another key than it was compiled for",
    "`dbt build`; if it stays so, `dbt build --full-refresh --select shops`",
)


@pytest.mark.parametrize("altered", ["id type bigint", "id type text"])
def test_a_column_of_an_input_that_is_altered_by_hand_is_mended_by_what_is_said(
    life: Life, altered: str
) -> None:
    life.target.execute(f"alter table analytics.shops alter {altered}")
    for _ in range(2):
        life.source.execute("update lab.sale set amount = amount + 1")
        life.try_again()
        for name in ("named", "narrow", "halved"):
            assert life.state(name) == ("waits", *OF_AN_INPUT)
        life.keep(MODELS, is_refresh=False)
    life.keep(MODELS)
    life.must_be_exact()


def test_an_input_that_was_dropped_is_made_again_by_what_its_state_says(life: Life) -> None:
    life.target.execute("drop table analytics.shops")
    life.source.execute("update lab.shop set name = 'a'")
    life.catch_up()
    life.must_say("shops", "failed", remedy="`dbt build`")
    for name in ("named", "narrow", "halved"):
        assert life.state(name) == ("waits", *OF_AN_INPUT)
    life.keep(MODELS, is_refresh=False)
    life.must_be_exact()
    assert life.compare("select id, name from analytics.shops", "select * from lab.shop") == []
    life.target.execute("drop table analytics.most; create view analytics.most as select 1 as n")
    with pytest.raises(psycopg2.Error, match="most is a view, and rows are added to a table"):
        life.install_dependents("most")
    life.target.execute("drop view analytics.most")
    life.install_dependents("most")
    life.must_be_exact()


def test_a_key_a_column_a_right_or_a_name_taken_away_is_given_back_by_what_is_said(
    life: Life,
) -> None:
    for lost in (
        *("drop constraint uix_sales_dimensions", "drop column amount"),
        *("alter amount type text", "alter n type text"),
        "add extra int not null default 0; alter table analytics.sales alter extra drop default",
    ):
        life.target.execute(f"alter table analytics.sales {lost}")
        life.source.execute("update lab.sale set amount = amount + 1")
        life.catch_up()
        life.must_say("sales", "failed", remedy="`dbt build --full-refresh --select sales`")
        life.keep(MODELS)
        life.must_be_exact()

    routine = "select routine from cdc.installed_model where model_name = 'sales'"
    ((name,),) = life.target.execute(routine)
    life.target.execute(f"create role poor; alter function {name} owner to poor")
    life.source.execute("update lab.sale set amount = amount + 1")
    life.catch_up()
    assert life.state("sales")[2] == "grant it as docs/roles.md says, then `dbt build`"
    life.target.execute(f"alter function {name} owner to current_user; drop role poor")
    life.keep(MODELS, is_refresh=False)
    life.must_be_exact()

    life.target.execute("alter table analytics.sales rename to former")
    said = r"former has the index analytics\.uix_sales_dimensions, which is to be the key of"
    with pytest.raises(psycopg2.Error, match=said) as refused:
        life.keep(MODELS, is_refresh=False)
    life.target.execute(str(refused.value.diag.message_hint))
    life.keep(MODELS, is_refresh=False)
    life.must_be_exact()
    life.target.execute("drop table analytics.former")


def test_a_length_that_is_widened_at_the_source_cuts_no_value(life: Life) -> None:
    life.source.execute(
        "alter table lab.shop alter name type varchar(40);"
        " update lab.shop set name = name || ' under a longer name'"
    )
    life.must_be_exact()
    assert life.compare("select id, name from analytics.shops", "select * from lab.shop") == []
    # It is the model that it was.
    life.keep(MODELS, is_refresh=False)
    life.must_be_exact()


def test_an_audit_names_an_input_that_does_not_follow(life: Life) -> None:
    audit = "spark-submit spark/audit.py --model named"
    is_noted = "select audited_at is not null from cdc.model_state where model_name = 'named'"
    life.target.execute(
        "update cdc.installed_model set error = 'no', remedy = 'do it' where model_name = 'sales'"
    )
    assert "Note: analytics.sales, which it reads, failed: no" in life.spark_job(audit)
    assert not life.target.value(is_noted)
    life.try_again()
    assert "Note: " not in life.spark_job(audit)
    assert life.target.value(is_noted)


def test_what_spark_applies_reaches_dependents_too(life: Life) -> None:
    life.keep({**MODELS, "sales": (MODELS["sales"][0], {"engine": "spark"})})
    life.source.execute("update lab.sale set amount = amount + 1 where id < 20")
    life.catch_up()
    life.spark_job("spark-submit spark/apply.py --once")
    amounts = "select sum(amount)::int from "
    assert life.target.value(amounts + "analytics.sales") == life.source.value(amounts + "lab.sale")
    assert life.differing() == {}
    assert life.target.execute("select reason from cdc.to_fill") == []


def test_a_changed_input_goes_on_as_it_was_until_its_baseline_is_there(life: Life) -> None:
    changed = {
        **MODELS,
        "sales": (MODELS["sales"][0].replace("group by", "where id > 9 group by"), {}),
    }
    life.keep(changed, is_refresh=False)
    life.source.execute("update lab.sale set amount = amount + 1 where id < 20")
    life.catch_up()
    life.must_say("sales", "follows", "its query has changed")
    assert life.differing() == {}
    life.spark_job("spark-submit spark/seed.py --model sales")
    life.must_be_exact()
    assert life.target.value("select sum(n) from analytics.sales") == 31
    life.source.execute("update lab.sale set shop_id = 2 where id % 3 = 0")
    life.must_be_exact()


def test_what_reads_a_column_that_its_input_gets_with_a_seed_holds_nothing_until_then(
    life: Life,
) -> None:
    sales = MODELS["sales"][0].replace("sum(amount)", "count(amount) as valued, sum(amount)")
    named = f"select s.name, sum(a.valued) as amount, sum(a.n) as n {JOINED} group by 1"
    life.keep({**MODELS, "sales": (sales, {}), "named": (named, {})}, is_refresh=False)
    life.source.execute("update lab.sale set amount = amount + 1, shop_id = 2 where id < 20")
    life.catch_up()
    assert (life.state("sales")[0], life.state("named")[0]) == ("follows", "waits")
    held = "select cdc.wait_for(slot_name, position_lsn, '100ms', array[%s]) from cdc.slot_position"
    assert life.target.value(held, "sales") and not life.target.value(held, "named")


def test_a_changed_query_is_filled_again_with_its_new_columns(life: Life) -> None:
    query = f"select s.name, count(*) as pairs, sum(a.amount) as amount, sum(a.n) as n {JOINED} group by 1"
    # It was a total, whose key is an index alone.
    most = "select n % 2 as half, max(pairs) as most, count(distinct n) as sizes from {named} group by 1"
    life.keep({**MODELS, "named": (query, {}), "most": (most, {})}, is_refresh=False)
    life.must_say("named", "waits", "it is to be filled from its inputs: its query has changed")
    life.must_say("most", "waits", "analytics.named, which it reads, is to be filled first")
    life.source.execute("update lab.sale set amount = amount + 1 where id < 20")
    life.must_be_exact()
    indexes = "select count(*) from pg_indexes where indexname ~ '^waltally_[0-9a-f]{32}$'"
    assert life.target.value(indexes) >= 1
    life.keep({name: MODELS[name] for name in ("sales", "shops")})
    assert life.target.value(indexes) == 0
    assert life.target.value("select count(*) from cdc.dependent_model") == 0


def test_more_than_a_thousand_rows_that_its_query_cannot_take_stop_a_model_alone(
    life: Life,
) -> None:
    # No two rows look alike to it.
    tenths = "select 10 / amount as part, sum(id) as ids from {sale} group by 1"
    life.keep({**MODELS, "tenths": (tenths, {})}, is_refresh=False)
    seed = "spark-submit spark/seed.py --model tenths"
    life.spark_job(seed)
    life.must_be_exact()
    assert life.state("tenths") == ("follows", "", "")
    life.source.execute("insert into lab.sale select n, 1, 0 from generate_series(101, 1101) as n")
    life.must_be_exact()
    life.must_say("tenths", "failed", "cannot take more than 1,000 rows of one transaction")
    assert "spark/seed.py" not in life.state("tenths")[2]
    # A seed ends as the stream does.
    with pytest.raises(LoaderError, match=r"cannot take more than 1,000 rows of lab\.sale"):
        life.spark_job(seed)
