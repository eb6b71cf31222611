"""The audit of several facts in one job: sums, days and conditions, and the slots of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from auditing.job import audit
from common.errors import AuditIncomplete

from testkit.facts import NOTIFY, manifest_of
from tests.spark.audited import Audited
from tests.spark.declared import ORDERS, RECOUNT, Shop

CREATE = """
    create table analytics.ft_orders (
        id uuid primary key, source text, shop_id integer, channel text, size numeric(6, 2),
        is_gift boolean, day date, month date, placed_count bigint, archived_count bigint,
        amount numeric, refunded numeric(12, 2), summer_count bigint, large_amount numeric,
        spread numeric, refunded_sizes numeric(20, 4)
    )
"""
FILL = """
    insert into analytics.ft_orders
    select id::uuid, groups[1], groups[2]::integer, groups[3], groups[4]::numeric,
        groups[5]::boolean, groups[6]::date, groups[7]::date, sums[1]::bigint, sums[2]::bigint,
        sums[3]::numeric, sums[4]::numeric, sums[5]::bigint, sums[6]::numeric, sums[7]::numeric,
        sums[8]::numeric
    from ({recount}) as counted (groups, sums, id)
"""
WRITE_DOWN = """
    insert into cdc.archived_delete
    select %s, 'analytics.ft_orders', 'archived', '0/1', kept.groups, array[
        0,
        kept.sums[2]::numeric - coalesce(stored.sums[2]::numeric, 0),
        kept.sums[3]::numeric - coalesce(stored.sums[3]::numeric, 0),
        0,
        kept.sums[5]::numeric - coalesce(stored.sums[5]::numeric, 0),
        0,
        kept.sums[7]::numeric - coalesce(stored.sums[7]::numeric, 0),
        0
    ]
    from ({kept}) as kept (groups, sums, id)
    left join ({stored}) as stored (groups, sums, id) using (groups)
    where kept.sums is distinct from stored.sums
"""


class Orders:
    """The fact ft_orders beside ft_service_stats, built by hand as cdc.apply would build it."""

    def __init__(self, audited: Audited, connection: psycopg.Connection[object]) -> None:
        self.audited = audited
        self.shop = Shop(connection, seed=11)

    def set_up(self) -> None:
        source = self.audited.source
        self.shop.create()
        source.manifest = manifest_of({"ft_service_stats": NOTIFY, "ft_orders": ORDERS})
        self.audited.must("setup")
        source.execute(CREATE)
        source.execute(
            "insert into cdc.installed_model (slot_name, model_name, fact_name, declaration,"
            " routine, reader, needs, table_nos) select slot_name, 'analytics.ft_orders',"
            " fact_name, declaration, 'none', 'none', '[]', '{1,2,3}' from cdc.fact"
            " where fact_name = 'ft_orders'"
        )
        self.audited.must("run", "--once")
        source.execute(
            "insert into cdc.baseline (slot_name, fact_name, baseline_id, declaration,"
            " snapshot_lsn, system_identifier) select slot_name, fact_name, gen_random_uuid(),"
            " declaration, position_lsn, system_identifier from cdc.slot_position"
            " inner join cdc.fact using (slot_name) where fact_name = 'ft_orders'"
        )

    def build(self) -> None:
        """Fill the fact from the tables while nobody writes."""
        self.audited.must("run", "--once")
        source = self.audited.source
        source.execute("truncate analytics.ft_orders")
        recount = RECOUNT.format(archived="kept", slot=self.audited.slot)
        source.execute(FILL.format(recount=recount))
        stored = RECOUNT.format(archived='"Old Orders"', slot=self.audited.slot)
        source.execute("delete from cdc.archived_delete")
        source.execute(WRITE_DOWN.format(kept=recount, stored=stored), self.audited.slot)
        source.execute("delete from cdc.model_watermark where model_name = 'analytics.ft_orders'")
        source.execute(
            "insert into cdc.model_watermark (model_name, slot_name, applied_lsn, baseline_id,"
            " declaration) select 'analytics.ft_orders', slot_name, position_lsn, baseline_id,"
            " declaration from cdc.slot_position inner join cdc.baseline using (slot_name)"
            " where fact_name = 'ft_orders'"
        )


@pytest.fixture
def orders(audited: Audited) -> Iterator[Orders]:
    with closing(psycopg.connect(audited.dsn, autocommit=True)) as connection:
        made = Orders(audited, connection)
        made.set_up()
        yield made


@pytest.mark.slow
def test_every_fact_is_audited_and_a_sum_that_is_wrong_by_a_cent_is_found(
    audited: Audited, orders: Orders
) -> None:
    orders.shop.write(80, truncates=False)
    orders.build()
    orders.shop.write(60, truncates=False)
    audited.purge(3)
    with audited.follow():
        report = audit(audited.settings())
        notify, found = sorted(report.facts, key=lambda each: each.name, reverse=True)
        assert (notify.name, found.name) == ("ft_service_stats", "ft_orders")
        assert found.comparison.differences == notify.comparison.differences == []
        assert (found.unseen, found.change_count > 50) == ({}, True)
        assert found.comparison.group_count > 20
        assert int(found.purged["archived_count"]) > 0
        assert {each.reason for each in found.left_out} == {"a dimension is null"}

        # Of both facts at once, and of one that is asked for.
        [group] = audited.source.execute(
            "update analytics.ft_orders set amount = amount + 0.01 where id ="
            " (select min(id::text)::uuid from analytics.ft_orders) returning source,"
            " shop_id::text, channel, size::text, is_gift::text, day::text, month::text"
        )
        audited.put_off(1)
        code, out, err = audited.run("--json", "--fact", "ft_orders")
        assert code == 42, err
        facts = json.loads(out)["facts"]
        assert set(facts) == {"ft_orders"}
        [difference] = facts["ft_orders"]["differences"]
        names = [each["name"] for each in ORDERS["dimensions"]]
        assert difference["dimensions"] == dict(zip(names, group, strict=True))
        assert (difference["measure"], difference["difference"]) == ("amount", "0.01")
        assert facts["ft_orders"]["totals"]["amount"]["difference"] == "0.01"
        code, out, err = audited.run()
        assert code == 42
        assert "analytics.ft_orders differs" in err and "ft_service_stats differs" in err
        assert "`spark-submit spark/seed.py --fact ft_orders`" in err
        assert "+0.01" in out


def test_rows_of_another_slot_are_left_alone(audited: Audited, orders: Orders) -> None:
    orders.shop.write(90, truncates=False)
    orders.build()
    audited.source.execute(
        "insert into analytics.ft_orders select gen_random_uuid(), 'west', shop_id, channel, size,"
        " is_gift, day, month, 7, 7, 7, 7, 7, 7, 7, 7 from analytics.ft_orders"
    )
    with audited.follow():
        [found] = audit(audited.settings("ft_orders")).facts
    assert found.comparison.differences == []
    assert int(found.comparison.totals["placed_count"].fact) > 0


def test_a_truncate_whose_part_of_a_sum_is_not_known_waits_for_a_build(
    audited: Audited, orders: Orders
) -> None:
    orders.shop.write(30, truncates=False)
    orders.build()
    orders.shop.truncate("orders")
    with audited.follow():
        report = audit(audited.settings())
        assert [each.name for each in report.facts] == ["ft_service_stats"]
        refused = report.refused["ft_orders"]
        assert isinstance(refused, AuditIncomplete)
        assert "public.orders was truncated" in str(refused)
        code, out, err = audited.run("--json")
        assert (code, json.loads(out)["equal"]) == (41, False)
        assert "Try: `dbt build`, then the audit again" in err


def test_a_fact_that_waits_for_its_baseline_does_not_keep_the_others_from_it(
    audited: Audited, orders: Orders
) -> None:
    with audited.follow():
        code, out, err = audited.run("--json")
    report = json.loads(out)
    assert (code, set(report["facts"])) == (20, {"ft_service_stats"}), err
    assert report["facts"]["ft_service_stats"]["equal"] is True
    assert "analytics.ft_orders waits: it was not built yet" in report["refused"]["ft_orders"]
    assert "Try: `loader run --build` or `dbt build`" in err
