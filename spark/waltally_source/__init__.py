"""Registers the change log as a data source of Spark's active session: `import waltally_source`.

`spark.read.format("waltally")` and `spark.readStream.format("waltally")` read it then.
docs/data-source.md lists the options.
"""

from common import session
from pyspark.sql import SparkSession
from reading.change_log import ChangeLogSource


def register(spark: SparkSession) -> None:
    """Let a session read the format `waltally`, its executors too."""
    code = session.send_code(spark)
    # The process that plans a stream does not look where executors find files.
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment["PYTHONPATH"] = str(code)
    spark.dataSource.register(ChangeLogSource)
    environment.clear()
    environment.update(before)


register(SparkSession.builder.getOrCreate())
