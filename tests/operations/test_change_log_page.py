"""docs/reading.md is true of the change log: its columns, and SQL that reads each change once."""

from __future__ import annotations

import re

from testkit.commands import ROOT
from testkit.databases import paste
from testkit.pipeline import Pipeline

PAGE = (ROOT / "docs/reading.md").read_text().partition("## The change log")[2]
REGISTER, READ = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_a_reader_gets_each_change_once_and_in_order(pipeline: Pipeline) -> None:
    source, run = pipeline.source, pipeline.target.execute
    pipeline.must("setup")
    columns = pipeline.target.value(
        "select array_agg(attname::text order by attnum) from pg_attribute "
        "where attrelid = 'cdc.change_log'::regclass and attnum > 0"
    )
    assert sorted(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == sorted(columns)

    def psql(script: str) -> str:
        script = "\\set QUIET off\n" + script.replace("waltally", pipeline.slot)
        return paste(source.cluster, source.name, script, reader)

    def read() -> tuple[list[str], str]:
        """The changes that it reads, as `commit_lsn|ordinal|action`, and the update's answer."""
        said = psql(READ).splitlines()
        rows = [line for line in said if re.match(r"[0-9A-F]+/", line)]
        (updated,) = [line for line in said if line.startswith("UPDATE")]
        return ["|".join(row.split("|")[:3]) for row in rows], updated

    rights = (
        "grant usage on schema cdc to {0}; "
        "grant select on cdc.change_log, cdc.slot_position to {0}; "
        "grant select, insert, update on cdc.reader_position to {0}"
    )
    with pipeline.target.role(rights) as reader:
        psql(REGISTER)
        found: list[str] = []
        for _ in range(2):
            source.insert(2)
            source.execute("update notifications set notification_status = 'sent'")
            pipeline.must("run", "--once")
            rows, updated = read()
            assert updated == "UPDATE 1"
            found += rows
        stored = run(
            "select concat_ws('|', commit_lsn, ordinal, action) from cdc.change_log "
            "order by commit_lsn, ordinal"
        )
        assert len(found) == 2 + 2 + 2 + 4 and [(row,) for row in found] == stored
        assert read() == ([], "UPDATE 1")
        # A log that begins later, as one that was pruned before the reader came, or a new one.
        source.insert(1)
        pipeline.must("run", "--once")
        run("update cdc.slot_position set start_lsn = position_lsn")
        assert read()[1] == "UPDATE 0"
        # It does not take the position of another log.
        run("update cdc.reader_position set applied_lsn = 'F/0'")
        pipeline.must("setup", "--renew")
        assert pipeline.target.value("select applied_lsn from cdc.reader_position") == "0/0"
