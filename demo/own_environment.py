"""The caller's own databases, clusters and Spark are nothing to the demo and the tests."""

from __future__ import annotations

import os

_SETTINGS = ("PG", "LOADER_", "DBT_", "SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
"""How the names of their variables begin."""
_CHOICES = frozenset({"PG", "PG_BIN", "PG_ROOT"})
"""What ops/find-postgres reads: which server to start."""


def forget_settings() -> None:
    """Remove from this process's environment what would lead it elsewhere.

    A PGSERVICE, PGHOSTADDR or PGSSLMODE counts even for a session that names its host, and another
    SPARK_HOME or PYSPARK_DRIVER_PYTHON even for our spark-submit.
    """
    for name in list(os.environ):
        if name.startswith(_SETTINGS) and name not in _CHOICES:
            del os.environ[name]
