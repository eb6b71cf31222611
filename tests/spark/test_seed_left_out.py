"""Rows that the stream could not count are left out of the seed too, and reported."""

from __future__ import annotations

import json

from tests.spark.support import PARTS, TABLES, Source
from waltally.units import plural

REJECTIONS = """
    select part, reason, row_count, length(example ->> 'notification_status')
    from cdc.baseline_rejection order by 1, 2
"""
COUNTED = "num_nulls(service_id, template_id, notification_type, notification_status) = 0"


def test_a_value_longer_than_an_index_row_is_listed_and_the_rest_is_counted(
    source: Source,
) -> None:
    source.fill()
    expected = source.recount()
    with source.connect() as connection:
        long = connection.execute(
            "update notifications set notification_status = repeat('ü', 3000) where"
            f" notification_status = 'sent' and {COUNTED}".encode()
        ).rowcount
        connection.execute(
            "insert into cdc.baseline_rejection values"
            " (%s, 'ft_service_stats', 'live', 'of the seed before', 1, '{}')",
            (source.slot,),
        )
    code, out, err = source.seed("--json")
    assert code == 0, err
    assert "Traceback" not in err
    reason = "the value of notification_status is longer than 1000 bytes"
    assert source.ask(REJECTIONS) == [("live", reason, long, 100)]
    summary = json.loads(out)["facts"]["ft_service_stats"]
    assert [(each["reason"], each["row_count"]) for each in summary["rejections"]] == [
        (reason, long)
    ]
    found = source.baseline()
    assert found[TABLES[1]] == expected[TABLES[1]]
    assert found[TABLES[0]] == {
        group: count for group, count in expected[TABLES[0]].items() if group[3] != "sent"
    }
    with source.connect() as connection:
        connection.execute("delete from notifications where length(notification_status) > 1000")
    code, out, err = source.seed()
    assert code == 0, err
    assert source.ask(REJECTIONS) == []
    assert "cannot be counted" not in out


def test_rows_with_a_null_dimension_are_counted_as_left_out(source: Source) -> None:
    source.fill()
    code, out, err = source.seed()
    assert code == 0, err
    [(left_out,)] = source.ask("select left_out from cdc.baseline")
    expected = {
        table: source.ask(f"select count(*) from {table} where not {COUNTED}")[0][0]
        for table in TABLES
    }
    assert left_out == {PARTS[table]: count for table, count in expected.items()}
    assert all(expected.values())
    for table, count in expected.items():
        assert f"{plural(count, 'row')} of {table} left out: a dimension is null" in out
