"""dbt installs again, and other declarations, beside a loader that applies."""

from __future__ import annotations

from pathlib import Path

from testkit.commands import run_dbt
from testkit.notify_traffic import Traffic
from testkit.pipeline import Pipeline
from testkit.project import host_project, notify_model

MODEL = notify_model("public.notifications", "public.notification_history")
DERIVED = "derived={'count': 'live_count + archived_count'"
CHANGES = (
    MODEL.replace(DERIVED, f"{DERIVED}, 'twice': '2 * live_count'"),
    MODEL,
    MODEL.replace("live_count + archived_count", "archived_count + live_count"),
)
"""With a derived column more, with that column gone, and with an expression written otherwise."""


def test_installing_beside_a_loader_costs_no_change_and_no_error(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    project = host_project(tmp_path, {"ft_service_stats": MODEL})
    pipeline.use_project(project)
    pipeline.begin()
    environment = pipeline.environment(DBT_PROJECT_DIR=str(project))
    no_purges = {"history_purge": 0, "purge_and_archive_again": 0}
    traffic = Traffic(pipeline.dsns[0], sessions=2, rate=100, weights=no_purges)
    traffic.start()
    with pipeline.follow("--build") as running:
        for model in CHANGES:
            (project / "models" / "ft_service_stats.sql").write_text(model)
            done = run_dbt(("run",), environment)
            assert done.returncode == 0, done.stdout + done.stderr
        traffic.stop()
        pipeline.must("wait", "--timeout", "60s")
        running.end()
    assert "ERROR" not in running.said() and "failed" not in running.said(), running.said()
    assert pipeline.differences() == []
    assert pipeline.rejected() == []
