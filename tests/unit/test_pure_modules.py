"""The pure core decodes, batches and judges without a database driver."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import ROOT

PURE = (
    "waltally.errors",
    "waltally.escapes",
    "waltally.facts",
    "waltally.failpoints",
    "waltally.followed",
    "waltally.leaves",
    "waltally.lsn",
    "waltally.open_transactions",
    "waltally.server_errors",
    "waltally.session_settings",
    "waltally.tables",
    "loader.capture.altered_tables",
    "loader.capture.batches",
    "loader.capture.copy_rows",
    "loader.capture.events",
    "loader.capture.held_positions",
    "loader.capture.leaf_names",
    "loader.capture.messages",
    "loader.capture.moved_rows",
    "loader.capture.queue",
    "loader.capture.wal2json",
    "loader.monitoring.text_lines",
    "loader.monitoring.health",
    "loader.monitoring.progress",
    "loader.monitoring.stats_query",
    "loader.monitoring.summary",
    "loader.monitoring.thresholds",
    "loader.monitoring.wal_clock",
    "loader.preflight.check_constraints",
    "loader.preflight.checks",
    "loader.preflight.manifest",
    "loader.preflight.remedies",
    "loader.preflight.slot_errors",
    "loader.preflight.slot_state",
    "loader.preflight.server_facts",
    "loader.preflight.table_facts",
    "loader.preflight.synchronous",
    "loader.preflight.table_checks",
    "loader.scaffold.proposal",
    "loader.staging.layout",
    "loader.staging.log_consumers",
    "loader.staging.records",
    "loader.staging.retention",
)

DRIVERS = ("adbc_driver_manager", "adbc_driver_postgresql", "psycopg", "psycopg2")


def drivers_after(statement: str) -> list[str]:
    """Return the drivers that a fresh interpreter has loaded after the statement."""
    code = f"{statement}; import sys; print(*[name for name in {DRIVERS} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_imports_no_driver(module: str) -> None:
    assert drivers_after(f"import {module}") == []


def test_a_driver_would_be_seen() -> None:
    assert drivers_after("import waltally.database") == ["psycopg", "psycopg2"]
