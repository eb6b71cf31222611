"""From a superuser's first try to the four roles, beside a running loader."""

from __future__ import annotations

import threading
from pathlib import Path

from testkit.commands import wait_until
from tests.operations import roles

QUERY = """
select notification_status, count(*) as n from notifications group by 1 having count(*) > 1
"""
ADDED = """
{{ config(materialized='waltally') }}

select service_id, count(*) as n from {{ source('public', 'notifications') }} group by 1
"""


def test_a_superuser_s_project_goes_on_by_the_roles(tmp_path: Path) -> None:
    """Each of the four runs of the file was a deadlock, and the next build was refused."""
    with roles.own_server(tmp_path, roles.ACCESS) as made:
        run = made.source.execute
        first = made.by("postgres")
        (tmp_path / "live.sql").write_text(QUERY)
        query = str(tmp_path / "live.sql")
        first.do("loader", "init", str(tmp_path / "live"), "--query", query)
        for system in (made, first):
            system.project = tmp_path / "live"
            system.given["LOADER_MANIFEST"] = ""
        run("delete from notifications")
        first.do("loader", "setup")
        first.do("dbt", "build")
        followed = first.follow("--build")
        made.source.take_baseline()
        made.source.insert(4)
        over = threading.Event()

        def write() -> None:
            with made.session("postgres").cursor() as cursor:
                while not over.is_set():
                    cursor.execute("update notifications set notification_status = 'sent'")
                    cursor.execute("update notifications set notification_status = 'new'")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(4):
                roles.grant_rights(made)
        finally:
            over.set()
            writer.join()

        def follow() -> bool:
            state = "select distinct state, reason from cdc.model_state"
            return run(state) == [("follows", None)]

        wait_until(follow, "all follow")
        followed.end()

        run("delete from notifications")
        made.do(*roles.BUILD)
        (tmp_path / "live" / "models" / "added.sql").write_text(ADDED)
        made.by(roles.DBT).do("dbt", "build")
        with made.follow("--build"):
            made.source.take_baseline("added")
            made.source.insert(3)
            wait_until(follow, "the new one follows")
            roles.grant_rights(made)
        made.by(roles.DBT).do("dbt", "build")
        asked = [
            made.session(roles.READER).ask(f"select sum(n) from analytics.{name}")
            for name in ("live", "added")
        ]
        assert asked == [run("select count(*) from notifications")] * 2
