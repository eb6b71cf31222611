"""Registers the change log as a data source of Spark's active session: `import waltally_source`.

`spark.read.format("waltally")` and `spark.readStream.format("waltally")` read it then.
docs/spark.md lists the options.
"""

import contextlib

from pyspark.sql import SparkSession
from waltally_jobs.common import session, submitted
from waltally_jobs.data_source.change_log import ChangeLogSource


def register(spark: SparkSession) -> None:
    """Let a session read the format `waltally`, its executors too."""
    code = session.send_code(spark)
    with contextlib.nullcontext() if session.is_remote() else submitted.planning(spark, code):
        spark.dataSource.register(ChangeLogSource)


register(SparkSession.builder.getOrCreate())
