"""The source that the benchmarks read: Notify's tables and changes of about 1 KB of JSON each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from psycopg2.extensions import connection as Connection

from benchmarks.measure import ROOT, run
from testkit import source
from testkit.commands import LOADER as LOADER
from testkit.commands import profiles
from testkit.servers import Cluster, connect

BIN = LOADER.parent
MODELS = tuple(
    f"config.materialized:{name}" for name in ("waltally", "waltally_fact", "kept_table")
)
"""What dbt installs, in former revisions too."""
MODEL = "analytics.ft_service_stats"

TEXT_LENGTH = 310
"""Length of the personalisation that makes an insert's JSON 1 KB."""

_PROJECT = """\
name: benchmark
version: 1.0.0
config-version: 2
profile: waltally
model-paths: ["{{ env_var('BENCHMARK_MODELS', 'models') }}"]
"""
_SOURCE = re.compile(r"source\('app', '(\w+)'\)")
_BEHIND = """
select count(*) from cdc.model_watermark
where applied_lsn < (select position_lsn from cdc.slot_position)
"""

_INSERT = f"""
insert into notifications (
    "to", service_id, template_id, notification_type, notification_status, created_at,
    personalisation
)
select
    'someone@example.com', t.service_id, t.id, t.template_type,
    (array['created', 'sending', 'delivered'])[1 + mod(n, 3)], now(), repeat('x', {TEXT_LENGTH})
from generate_series(%(first)s::bigint, %(last)s) as n
inner join (
    select row_number() over (order by id) - 1 as place, * from templates
) as t on t.place = mod(n, %(templates)s)
"""


def ask(dsn: str, statement: str, values: Mapping[str, object] | None = None) -> list[Any]:
    """Execute a statement outside a transaction, or several in one; return the rows of the last."""
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def create(cluster: Cluster, services: int = 10, templates: int = 50) -> None:
    """Make the tables, empty, with the whole old row in the log."""
    source.create(cluster.dsn())
    source.fill(cluster.dsn(), services=services, templates=templates)
    source.set_identity(cluster.dsn(), "full")


def insert(cluster: Cluster, rows: int, each: int) -> None:
    """Insert notifications in transactions of `each` rows, as fast as the server takes them."""
    with closing(connect(cluster.dsn())) as connection, connection.cursor() as cursor:
        cursor.execute("set synchronous_commit to off")
        cursor.execute("set session_replication_role to replica")
        cursor.execute("select count(*) from templates")
        ((templates,),) = cursor.fetchall()
        if each > 1:
            for first in range(0, rows, each):
                last = min(first + each, rows) - 1
                cursor.execute(_INSERT, {"first": first, "last": last, "templates": templates})
            return
        insert_one = _INSERT.replace("%(first)s", "i").replace("%(last)s", "i")
        one = cursor.mogrify(insert_one, {"templates": templates}).decode()
        cursor.execute(f"do $$ begin for i in 0..{rows - 1} loop {one}; commit; end loop; end $$")


def declare(project: Path, models: Mapping[str, str]) -> None:
    """Write a dbt project with these files into the empty folder.

    Its models are in `models`, or in the folder that BENCHMARK_MODELS names, and read the tables
    of the schema public by source('app', …).
    """
    tables = sorted({name for text in models.values() for name in _SOURCE.findall(text)})
    app = {"name": "app", "schema": "public", "tables": [{"name": name} for name in tables]}
    sources = json.dumps({"sources": [app]})
    models = {**models, **{f"{Path(name).parent}/sources.yml": sources for name in models}}
    for name, text in models.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "dbt_project.yml").write_text(_PROJECT)
    (project / "packages.yml").write_text(json.dumps({"packages": [{"local": str(ROOT)}]}))
    run([BIN / "dbt", "deps", "--quiet", "--project-dir", project], {}, {})


def apply_seconds(session: Connection, slot: str) -> float:
    """Return the CPU seconds of one `cdc.apply` in the session, by the kernel's own clock.

    Raises RuntimeError where a model has not applied everything.
    """
    clock = Path(f"/proc/{session.info.backend_pid}/schedstat")
    with session.cursor() as cursor:
        before = int(clock.read_text().split()[0])
        cursor.execute("select * from cdc.apply(%s)", (slot,))
        spent = int(clock.read_text().split()[0]) - before
        cursor.execute(_BEHIND)
        if (behind := cursor.fetchall()) != [(0,)]:
            raise RuntimeError(f"{behind[0][0]} models have not applied everything")
    return spent / 1e9


def environment(
    source: Cluster, target: Cluster, slot: str, project: Path = ROOT, database: str = "postgres"
) -> dict[str, str]:
    """Return what the loader, dbt and Spark need to know: the source's slot, the warehouse."""
    home = ROOT / "target"
    home.mkdir(exist_ok=True)
    return {
        **os.environ,
        **profiles(home),
        "DBT_PROJECT_DIR": str(project),
        **target.environment(database),
        "LOADER_SOURCE_DSN": source.dsn(database),
        "LOADER_TARGET_DSN": target.dsn(database),
        "LOADER_SLOT": slot,
    }


def set_up(source: Cluster, target: Cluster, slot: str, project: Path = ROOT) -> None:
    """Make a slot where there is none, install the project's models for it, and seed them."""
    settings = environment(source, target, slot, project)
    install(settings)
    seed(settings)


def install(settings: Mapping[str, str]) -> None:
    """Make a slot where there is none, register the project's models for it, and install them."""
    # The project is parsed once.
    run([BIN / "dbt", "compile", "--quiet"], settings, {})
    manifest = Path(settings["DBT_TARGET_PATH"]) / "manifest.json"
    run([LOADER, "setup", "--manifest", manifest], settings, {})
    run([BIN / "dbt", "run", "--quiet", "--select", *MODELS], settings, {})


def seed(settings: Mapping[str, str], checkout: Path = ROOT) -> None:
    """Take the first baselines, for which the models wait; no loader has to run."""
    run([BIN / "spark-submit", checkout / "spark/seed.py", "--forget-purged"], settings, {})
