"""The README's own commands, from a source with rows to a tested fact."""

from __future__ import annotations

import re
from pathlib import Path

from demo.cluster import Cluster
from tests.acceptance.pipeline import Pipeline
from tests.support import ROOT, Database, wait_until
from tests.support.commands import RunningLoader

IS_BUILT = "select to_regclass('analytics.ft_service_stats') is not null"


def commands() -> list[str]:
    block = re.search(
        r"<!-- the acceptance test runs this block -->\n```sh\n(.*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    assert block
    return block[1].splitlines()


def test_the_readme_s_commands_make_an_exact_fact(
    cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    pipeline = Pipeline(cluster, database, tmp_path, "covering", 77)
    copy, *rest, follow = commands()
    assert copy == "cp profiles.yml.example profiles.yml", "the pipeline has copied it"
    assert [command.split()[0] for command in rest] == ["loader", "spark-submit"]
    for command in rest:
        pipeline.run(*command.split())
    assert follow == "loader run --build"
    arguments = follow.removeprefix("loader run ").split()
    with RunningLoader(pipeline.environment, tmp_path / "run.log", *arguments) as running:
        wait_until(lambda: pipeline.database.value(IS_BUILT) is True, "the fact is built")
        running.end()
    pipeline.run("dbt", "test")
    assert pipeline.differences() == []
    tables = pipeline.database.execute(
        "select column_name, data_type from information_schema.columns "
        "where table_schema = 'analytics' and table_name = 'ft_service_stats' "
        "order by ordinal_position"
    )
    assert tables == [
        ("id", "uuid"),
        ("service_id", "uuid"),
        ("template_id", "uuid"),
        ("notification_type", "text"),
        ("notification_status", "text"),
        ("count", "bigint"),
        ("live_count", "bigint"),
        ("archived_count", "bigint"),
    ]


def test_docs_can_be_generated(cluster: Cluster, database: Database, tmp_path: Path) -> None:
    pipeline = Pipeline(cluster, database, tmp_path, "full", 78)
    pipeline.run("loader", "setup")
    pipeline.run("dbt", "docs", "generate", "--static")
    assert "ft_service_stats" in (tmp_path / "target" / "static_index.html").read_text()
