"""Large values pass, also where an update leaves them alone and the server sends them not."""

from __future__ import annotations

import pytest

from tests.following import peak_memory
from tests.input.bench import DIMENSIONS, SLOT, Bench
from tests.support import wait_until

RANDOM_TEXT = "(select string_agg(md5(random()::text), '') from generate_series(1, {0} / 32))"


def covering_identity(bench: Bench) -> None:
    for table in ("notifications", "notification_history"):
        names = ", ".join(DIMENSIONS)
        bench.execute(
            f"alter table {table} alter service_id set not null, alter template_id set not null, "
            f"alter notification_status set not null; "
            f"create unique index {table}_identity on {table} (id, {names}); "
            f"alter table {table} replica identity using index {table}_identity"
        )


@pytest.mark.parametrize("identity", ["full", "covering"])
def test_an_unchanged_large_column_changes_no_count(bench: Bench, identity: str) -> None:
    if identity == "covering":
        covering_identity(bench)
    bench.set_up()
    bench.database.insert(3)
    bench.execute(f"update notifications set personalisation = {RANDOM_TEXT.format(100_000)}")
    bench.execute("update notifications set notification_status = 'sent'")
    bench.execute("update notifications set sent_at = now()")
    bench.execute("update notifications set id = gen_random_uuid()")
    bench.must_be_exact()
    absent = "select count(*) from cdc.change_log where payload not like '%\"personalisation\"%'"
    assert bench.value(absent) == (0 if identity == "full" else 9)


def test_a_dimension_too_long_for_the_fact_is_rejected_and_stops_nothing(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(1)
    bench.execute("alter table notifications alter notification_status set storage external")
    bench.execute(f"update notifications set notification_status = {RANDOM_TEXT.format(100_000)}")
    bench.execute("update notifications set sent_at = now()")
    bench.database.insert(1, status="sent")
    bench.catch_up()
    assert bench.rejected() == [("U", "the value of notification_status is longer than 1000 bytes")]


def test_values_of_ten_megabytes_pass_in_bounded_memory(bench: Bench) -> None:
    bench.set_up()
    settings = {"LOADER_SLOT": SLOT}
    process = bench.database.start_loader("run", **settings)
    try:
        bench.database.insert(1)
        wait_until(lambda: bench.database.staged() == 1, "it has stored something")
        idle = peak_memory(process)
        for _ in range(10):
            bench.execute(
                'insert into notifications ("to", service_id, template_id, notification_type, '
                "notification_status, personalisation) select 'x', service_id, id, 'sms', 'sent', "
                "repeat('0123456789', 1000000) from templates limit 1"
            )
        bench.execute("update notifications set notification_status = 'delivered'")
        wait_until(lambda: bench.database.staged() == 22, "all of it is stored")
        # One value waits in the inbox, one is being read, one is in COPY's hands, some copies each.
        assert peak_memory(process) - idle < 192 * 1024
    finally:
        process.terminate()
        process.communicate(timeout=60)
    bench.must_be_exact()
