"""The audit of several facts in one job: sums, days and conditions, and the slots of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from auditing.job import audit

from testkit.facts import NOTIFY, manifest_of
from testkit.servers import connect
from tests.spark.audited import Audited
from tests.spark.declared import ORDERS, RECOUNT, Shop
from waltally.database import Connection

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

    def __init__(self, audited: Audited, connection: Connection) -> None:
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
    with closing(connect(audited.dsn)) as connection:
        made = Orders(audited, connection)
        made.set_up()
        yield made


@pytest.mark.slow
def test_a_fact_with_sums_is_audited_beside_the_others(audited: Audited, orders: Orders) -> None:
    with audited.follow():
        # A fact that waits for its first build does not keep the others from it, but a roll-up.
        audited.roll_up_statuses("analytics.ft_orders")
        code, out, err = audited.run("--json")
        report = json.loads(out)
        assert (code, set(report["facts"])) == (20, {"ft_service_stats"}), err
        assert report["facts"]["ft_service_stats"]["equal"] is True
        assert "analytics.ft_orders waits: it was not built yet" in report["refused"]["ft_orders"]
        assert "Try: `loader run --build` or `dbt build`" in err
        assert "its input ft_orders could not be compared" in report["refused"]["ft_statuses"]
        audited.source.execute("delete from cdc.roll_up")

    orders.shop.write(80, truncates=False)
    orders.build()
    # Rows of another slot are left alone.
    audited.source.execute(
        "insert into analytics.ft_orders select gen_random_uuid(), 'west', shop_id, channel, size,"
        " is_gift, day, month, 7, 7, 7, 7, 7, 7, 7, 7 from analytics.ft_orders"
    )
    orders.shop.write(60, truncates=False)
    audited.purge(3)
    with audited.follow():
        notify, found = sorted(
            audit(audited.settings()).facts, key=lambda each: each.name, reverse=True
        )
        assert (notify.name, found.name) == ("ft_service_stats", "ft_orders")
        assert found.comparison.differences == notify.comparison.differences == []
        assert (found.unseen, found.change_count > 50) == ({}, True)
        assert found.comparison.group_count > 20
        assert int(found.purged["archived_count"]) > 0
        assert {each.reason for each in found.left_out} == {"a dimension is null"}

        # A sum that is wrong by a cent; of one that is asked for.
        [group] = audited.source.execute(
            "update analytics.ft_orders set amount = amount + 0.01 where id ="
            " (select min(id::text)::uuid from analytics.ft_orders where source <> 'west')"
            " returning source, shop_id::text, channel, size::text, is_gift::text, day::text,"
            " month::text"
        )
        code, out, err = audited.run("--json", "--fact", "ft_orders")
        assert code == 42, err
        assert "`spark-submit spark/seed.py --fact ft_orders`" in err
        facts = json.loads(out)["facts"]
        assert set(facts) == {"ft_orders"}
        [difference] = facts["ft_orders"]["differences"]
        names = [each["name"] for each in ORDERS["dimensions"]]
        assert difference["dimensions"] == dict(zip(names, group, strict=True))
        assert (difference["measure"], difference["difference"]) == ("amount", "0.01")
        assert facts["ft_orders"]["totals"]["amount"]["difference"] == "0.01"

        # A TRUNCATE whose part of a sum is not known waits for a build.
        orders.shop.truncate("orders")
        code, out, err = audited.run("--json", "--fact", "ft_orders")
        report = json.loads(out)
        assert (code, report["equal"], report["facts"]) == (41, False, {})
        assert "public.orders was truncated" in report["refused"]["ft_orders"]
        assert "Try: `dbt build`, then the audit again" in err
