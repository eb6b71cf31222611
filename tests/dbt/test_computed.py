"""What cdc.apply_computed adds is its own batch, whoever writes beside it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from testkit.commands import wait_until
from tests.dbt.staged import SLOT, Warehouse
from tests.dbt.test_facts import change
from waltally import lsn

NAME = "ft_customer_days"
MODEL = f"analytics.{NAME}"
ORDERS = ("sales", "orders")
COMPUTED = (
    f"insert into cdc.computed_group values ('{SLOT}', '{MODEL}', %s, %s, null, null, "
    "array['2026-02-01', 'web', '1', '1'], array['1', '10'])"
)
APPLY = "select cdc.apply_computed(%s, %s, %s, null, %s, %s, row('own', array[1], 1, null, '{}'))"


def test_rows_of_another_batch_that_come_while_one_is_added_do_not_count(
    warehouse: Warehouse,
) -> None:
    """Of another driver, or of an executor that outlives its own."""
    warehouse.build("--select", NAME, "rejected_changes")
    row = {"day": "2026-02-01", "channel": "web", "customer_id": 1, "hours": 1, "amount": 10}
    insert = change("I", ORDERS, new={"id": 1, **row})
    warehouse.append([insert])
    warehouse.apply()
    warehouse.execute("update cdc.installed_model set engine = 'spark'")
    begin = warehouse.position
    warehouse.append([change("T", ORDERS), insert])
    warehouse.execute(COMPUTED, "own", 1)
    [(declaration,)] = warehouse.execute(
        "select declaration from cdc.fact where fact_name = %s", NAME
    )
    place = (json.dumps(declaration), lsn.show(begin), lsn.show(warehouse.position))

    def add() -> object:
        with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(APPLY, (SLOT, MODEL, *place))
            return cursor.fetchone()

    waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as thread, closing(warehouse.connect()) as reader:
        with reader, reader.cursor() as cursor:
            # The TRUNCATE takes this row to zero, after the batch was found whole.
            cursor.execute(f"begin; select from {MODEL} for update")
            added = thread.submit(add)
            wait_until(lambda: warehouse.execute(waiting), seconds=10, pause=0.01)
            for batch, attempt in (("other", 1), ("own", 2)):
                warehouse.execute(COMPUTED, batch, attempt)
            cursor.execute("commit")
        assert added.result() == (True,)
    assert warehouse.execute(f"select sum(order_count), sum(amount) from {MODEL}") == [(1, 10)]
