"""A new baseline keeps the rows that were purged from a table whose deletes are ignored."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.spark.declared import ORDERS, Shop
from tests.spark.support import Source
from tests.spark.test_seed_declared import EXACT, Group, a_shop, export, recounted, total
from waltally import lsn

BASELINE = "2b1f9a4e-0000-4000-8000-000000000000"


def build(source: Source, shop: Shop, baseline: str | None = BASELINE) -> None:
    """Make the fact's relation hold what was ever counted, and its watermark say so."""
    measures = [each["name"] for each in ORDERS["measures"]]
    columns = [f'"{each["name"]}" {each["type"]}' for each in ORDERS["dimensions"]]
    with source.connect() as connection:
        connection.execute("create schema if not exists analytics")
        listed = ", ".join([*columns, *(f"{name} numeric" for name in measures)])
        connection.execute(f"create table analytics.ft_orders ({listed})".encode())
        for group, numbers in shop.recount(source.slot, "kept").items():
            values = [*group, *numbers]
            marks = ", ".join("%s" for _ in values)
            connection.execute(f"insert into analytics.ft_orders values ({marks})".encode(), values)
        connection.execute(
            "insert into cdc.model_watermark (model_name, slot_name, applied_lsn, baseline_id,"
            " declaration) select 'analytics.ft_orders', %s, pg_current_wal_insert_lsn(), %s, %s",
            (source.slot, baseline, json.dumps(ORDERS)),
        )
        connection.execute("select pg_create_logical_replication_slot('truth', 'wal2json')")


def log(source: Source) -> None:
    """Stage what came since, as a loader does."""
    with source.connect() as connection:
        connection.execute("create table cdc.change_log_all partition of cdc.change_log default")
        changes = connection.execute(
            "select data from pg_logical_slot_get_changes('truth', null, null, 'format-version',"
            " '2', 'include-lsn', '1', 'include-xids', '1', 'include-transaction', '1',"
            " 'filter-tables', 'cdc.*')"
        ).fetchall()
        commit, ordinal = "", 0
        for (payload,) in changes:
            change = json.loads(payload)
            if change["action"] == "B":
                commit, ordinal = change["lsn"], 0
            ordinal += 1
            connection.execute(
                "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at,"
                " payload, action) values (%s, %s, %s, %s, now(), %s, %s)",
                (source.slot, commit, ordinal, change["xid"], payload, change["action"]),
            )
        connection.execute("update cdc.slot_position set position_lsn = pg_current_wal_lsn()")


def seed(source: Source, folder: Path, *flags: str) -> tuple[int, str, str]:
    """Seed from an export of now; nobody needs to follow the slot then."""
    position = export(source, folder)
    with source.connect() as connection:
        connection.execute("update cdc.slot_position set position_lsn = %s", (position,))
    return source.seed("--parquet", str(folder), "--snapshot-lsn", position, *flags)


def nonzero(groups: dict[Group, list[Decimal]]) -> dict[Group, list[Decimal]]:
    return {group: measures for group, measures in groups.items() if any(measures)}


def column_sum(groups: dict[Group, list[Decimal]], place: int) -> Decimal:
    return reduce(EXACT.add, (measures[place] for measures in groups.values()), Decimal(0))


@pytest.fixture
def shop(source: Source) -> Any:
    with a_shop(source) as made:
        build(source, made)
        yield made


def test_purged_rows_stay_counted_with_their_sums(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    shop.write(120, truncates=False)
    log(source)
    stored, known = recounted(shop, source.slot), recounted(shop, source.slot, "kept")
    assert nonzero(stored) != nonzero(known)
    code, out, err = seed(source, tmp_path, "--json")
    assert code == 0, err
    assert nonzero(total(source.groups("ft_orders"))) == nonzero(known)
    purged = json.loads(out)["facts"]["ft_orders"]["purged"]
    [(rows, groups, amount)] = source.ask(
        "select sum(purged[2]), count(*), sum(purged[3]) from cdc.baseline_group"
        " where purged is not null"
    )
    assert purged == {"outcome": "kept", "rows": rows, "groups": groups}
    assert rows == column_sum(known, 1) - column_sum(stored, 1)
    assert amount == EXACT.subtract(column_sum(known, 2), column_sum(stored, 2))


def test_purged_rows_are_forgotten_when_asked(source: Source, shop: Shop, tmp_path: Path) -> None:
    shop.write(60, truncates=False)
    log(source)
    code, out, err = seed(source, tmp_path, "--json", "--forget-purged")
    assert code == 0, err
    assert total(source.groups("ft_orders")) == recounted(shop, source.slot)
    purged = json.loads(out)["facts"]["ft_orders"]["purged"]
    assert purged["outcome"] == "forgotten"
    assert purged["rows"] > 0
    assert source.ask("select 1 from cdc.baseline_group where purged is not null") == []


def test_a_truncate_of_the_archive_takes_its_purged_rows_away(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    shop.write(20, truncates=False)
    shop.truncate('"Old Orders"')
    shop.write(60, truncates=False)
    log(source)
    code, _, err = seed(source, tmp_path)
    assert code == 0, err
    known = recounted(shop, source.slot, "kept")
    assert nonzero(total(source.groups("ft_orders"))) == nonzero(known)


def test_a_truncate_of_another_table_of_the_measure_needs_a_build_first(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    shop.truncate("orders")
    log(source)
    code, _, err = seed(source, tmp_path)
    assert code == 41, err
    assert "a TRUNCATE emptied placed" in err and "`dbt build`" in err
    assert source.ask("select 1 from cdc.baseline") == []


def test_sums_are_not_compared_with_a_fact_that_has_no_baseline(
    source: Source, tmp_path: Path
) -> None:
    with a_shop(source) as shop:
        build(source, shop, baseline=None)
        log(source)
        code, out, err = seed(source, tmp_path, "--json")
        assert code == 0, err
        stored = recounted(shop, source.slot)
        # Nobody needs to follow the slot for what is not compared.
        assert source.seed()[0] == 0
    fact = json.loads(out)["facts"]["ft_orders"]
    assert fact["purged"] == {"outcome": "unknown", "rows": None, "groups": None}
    assert "how many is not known" in fact["notes"][0]
    assert total(source.groups("ft_orders")) == stored


def test_a_fact_that_the_log_does_not_reach_back_to_is_refused(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    shop.write(20, truncates=False)
    log(source)
    with source.connect() as connection:
        connection.execute(
            "update cdc.slot_position set start_lsn ="
            " (select applied_lsn + 1 from cdc.model_watermark)"
        )
    code, _, err = seed(source, tmp_path)
    assert code == 41, err
    assert "does not reach back to analytics.ft_orders" in err and "--forget-purged" in err
    code, _, err = seed(source, tmp_path, "--forget-purged")
    assert code == 0, err
    assert total(source.groups("ft_orders")) == recounted(shop, source.slot)


def test_a_fact_of_another_declaration_is_not_compared(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    with source.connect() as connection:
        connection.execute(
            'update cdc.model_watermark set declaration = declaration || \'{"key": ["x"]}\''
        )
    log(source)
    code, out, err = seed(source, tmp_path, "--json")
    assert code == 0, err
    assert json.loads(out)["facts"]["ft_orders"]["purged"]["outcome"] == "unknown"
    assert total(source.groups("ft_orders")) == recounted(shop, source.slot)


def test_a_role_that_may_not_read_the_fact_is_told_the_grant(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    log(source)
    position = export(source, tmp_path)
    with psycopg.connect(source.dsn, autocommit=True) as admin:
        admin.execute("update cdc.slot_position set position_lsn = %s", (position,))
        admin.execute("create role seeder login")
        try:
            admin.execute("grant create, usage on schema cdc to seeder")
            admin.execute("grant all on all tables in schema cdc to seeder")
            admin.execute("grant usage on schema analytics to seeder")
            source.environment["PGUSER"] = "seeder"
            code, _, err = source.seed("--parquet", str(tmp_path), "--snapshot-lsn", position)
            assert code == 15, err
            assert 'grant select on "analytics"."ft_orders" to "seeder";' in err
        finally:
            admin.execute("drop owned by seeder; drop role seeder")
    assert lsn.parse(position)
