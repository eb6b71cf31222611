"""docs/reading.md is true of the change log: its columns, and SQL that reads each change once."""

from __future__ import annotations

import re
import subprocess

from testkit.commands import ROOT
from testkit.pipeline import Pipeline
from testkit.servers import BIN

PAGE = (ROOT / "docs/reading.md").read_text().partition("## The change log")[2]
REGISTER, READ = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
SLOT = "waltally"
READER = "reads_the_log"


def psql(pipeline: Pipeline, script: str) -> list[str]:
    """What psql prints, as a role with the rights that the page names."""
    done = subprocess.run(
        [str(BIN / "psql"), "--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1", "-f", "-"],
        env={**pipeline.environment(), "PGUSER": READER},
        input=script.replace(SLOT, pipeline.slot),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def read(pipeline: Pipeline) -> tuple[list[str], str]:
    """The changes that it reads, as `commit_lsn|ordinal|action`, and what the last update says."""
    said = psql(pipeline, READ)
    rows = [line for line in said if re.match(r"[0-9A-F]+/", line)]
    (updated,) = [line for line in said if line.startswith("UPDATE")]
    return ["|".join(row.split("|")[:3]) for row in rows], updated


def test_a_reader_gets_each_change_once_and_in_order(pipeline: Pipeline) -> None:
    pipeline.must("setup")
    columns = pipeline.target.value(
        "select array_agg(attname::text order by attnum) from pg_attribute "
        "where attrelid = 'cdc.change_log'::regclass and attnum > 0"
    )
    assert sorted(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == sorted(columns)
    pipeline.target.execute(
        f"create role {READER} login; grant usage on schema cdc to {READER}; "
        f"grant select on cdc.change_log, cdc.slot_position to {READER}; "
        f"grant select, insert, update on cdc.reader_position to {READER}"
    )
    try:
        psql(pipeline, REGISTER)
        found: list[str] = []
        for _ in range(2):
            pipeline.source.insert(2)
            pipeline.source.execute("update notifications set notification_status = 'sent'")
            pipeline.must("run", "--once")
            rows, updated = read(pipeline)
            assert updated == "UPDATE 1"
            found += rows
        stored = pipeline.target.execute(
            "select log.commit_lsn::text, ordinal, action::text from cdc.change_log as log "
            "order by log.commit_lsn, ordinal"
        )
        assert found == ["|".join(map(str, row)) for row in stored]
        assert len(found) == 2 + 2 + 2 + 4
        assert read(pipeline) == ([], "UPDATE 1")
        # A log that begins later, as one that was pruned before the reader came, or a new one.
        pipeline.source.insert(1)
        pipeline.must("run", "--once")
        pipeline.target.execute("update cdc.slot_position set start_lsn = position_lsn")
        assert read(pipeline)[1] == "UPDATE 0"
        # It does not take the position of another log.
        pipeline.target.execute("update cdc.reader_position set applied_lsn = 'F/0'")
        pipeline.must("setup", "--renew")
        assert pipeline.target.value("select applied_lsn from cdc.reader_position") == "0/0"
    finally:
        pipeline.target.execute(f"drop owned by {READER}; drop role {READER}")
