"""Demo and tests reach their own server and Spark, whatever the caller's shell names."""

from __future__ import annotations

import os

import pytest

from testkit import run_folder

ELSEWHERE = (
    *("PGSERVICE", "PGHOSTADDR", "PGSSLMODE", "PGOPTIONS", "PGUSER"),
    *("LOADER_SCHEMA", "DBT_SCHEMA", "SPARK_HOME", "PYSPARK_DRIVER_PYTHON"),
)


def test_settings_that_would_lead_elsewhere_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ELSEWHERE, "PG_BIN"):
        monkeypatch.setenv(name, "elsewhere")
    run_folder.forget_settings()
    assert set(os.environ) & {*ELSEWHERE, "PG_BIN"} == {"PG_BIN"}
