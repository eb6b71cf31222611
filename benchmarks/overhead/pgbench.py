"""An application that writes notifications, played by PostgreSQL's own pgbench."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from testkit.servers import BIN

CLIENTS = 2

SCRIPT = """\
\\set place random(1, :rows)
\\set chance random(1, 100)
\\set status random(1, 8)
\\set template random(1, :templates)
\\if :chance > 5
update notifications
set updated_at = now(), notification_status = (
    array['created', 'sending', 'pending', 'sent', 'delivered', 'temporary-failure',
        'permanent-failure', 'technical-failure']
)[:status]
where id = md5('1 live ' || :place)::uuid;
\\else
insert into notifications (
    "to", service_id, template_id, notification_type, notification_status, personalisation
)
select 'someone@example.com', service_id, id, template_type, 'created', repeat('x', 310)
from templates where id = md5('1 template ' || :template)::uuid;
\\endif
"""
"""One write per transaction: 95 of 100 give a row that `testkit.source.fill` made another status
(one in eight gets the one it has), the rest insert a row."""

_PROCESSED = re.compile(r"number of transactions actually processed: (\d+)")
_FAILED = re.compile(r"number of failed transactions: (\d+)")
_RATE = re.compile(r"tps = ([0-9.]+)")


@dataclass(frozen=True)
class Written:
    """What one run of the writers did."""

    writes: int
    per_second: float
    mean_ms: float
    """From when a write was due, at a fixed rate; else from when it was sent."""
    p95_ms: float


def write(
    dsn: str,
    *,
    rows: int = 0,
    templates: int = 0,
    seed: int,
    script: str = SCRIPT,
    clients: int = CLIENTS,
    seconds: int | None = None,
    writes: int | None = None,
    rate: float | None = None,
    awaits_commit: bool = True,
) -> Written:
    """Write for so many seconds or so many writes, as fast as it goes or `rate` writes per second.

    `script` is one of pgbench's, with the variables `rows` and `templates`.
    The same seed gives the same writes; `awaits_commit` false goes on before a commit is on disk.
    Raises RuntimeError where a transaction fails, a deadlock too, or pgbench is missing.
    """
    program = BIN / "pgbench"
    if not program.exists():
        raise RuntimeError(f"there is no {program}: it belongs to the server's package")
    with tempfile.TemporaryDirectory(prefix="waltally-pgbench-") as home:
        file = Path(home, "script.sql")
        file.write_text(script)
        command = [
            str(program),
            "--no-vacuum",
            "--protocol=prepared",
            f"--client={clients}",
            f"--jobs={min(clients, CLIENTS)}",
            f"--time={seconds}" if writes is None else f"--transactions={writes // clients}",
            f"--random-seed={seed}",
            f"--define=rows={rows}",
            f"--define=templates={templates}",
            f"--file={file}",
            "--log",
            f"--log-prefix={home}/log",
            *([f"--rate={rate}"] if rate else []),
            dsn,
        ]
        commit = "on" if awaits_commit else "off"
        environment = {**os.environ, "PGOPTIONS": f"-c synchronous_commit={commit}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"pgbench failed with {done.returncode}:\n{done.stderr}")
        took = sorted(
            int(line.split()[2]) / 1000
            for log in Path(home).glob("log.*")
            for line in log.read_text().splitlines()
        )
    if failed := _number(_FAILED, done.stdout):
        raise RuntimeError(f"{failed:,.0f} transactions failed:\n{done.stderr}")
    return Written(
        writes=int(_number(_PROCESSED, done.stdout)),
        per_second=_number(_RATE, done.stdout),
        mean_ms=statistics.fmean(took),
        p95_ms=took[int(len(took) * 0.95)],
    )


def _number(pattern: re.Pattern[str], output: str) -> float:
    found = pattern.search(output)
    if found is None:
        raise RuntimeError(f"pgbench printed something else than expected:\n{output}")
    return float(found[1])
