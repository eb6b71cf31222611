"""Registers the change log as a data source of Spark's active session: `import waltally_source`.

`spark.read.format("waltally")` and `spark.readStream.format("waltally")` read it then.
docs/spark.md lists the options.
"""

import pickle
from collections.abc import MutableMapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType
from waltally_jobs.common import session


def register(spark: SparkSession) -> None:
    """Let a session read the format `waltally`, its executors too."""
    spark.dataSource.register(_with(session.send_code(spark).read_bytes()))


def _with(code: bytes) -> type[DataSource]:
    """Return the data source with the zip of our code in it.

    Spark plans a stream, and a server of Spark Connect runs its tasks, in processes that do not
    look where the session's code is. What is local here is pickled with all that it names, not by
    its module.
    """

    def find() -> None:
        import atexit
        import importlib.util
        import os
        import sys
        import tempfile

        if importlib.util.find_spec("waltally_jobs") is None:
            with tempfile.NamedTemporaryFile(
                prefix="waltally-", suffix=".zip", delete=False
            ) as file:
                file.write(code)
            atexit.register(os.remove, file.name)
            sys.path.insert(0, file.name)

    def stream(state: bytes) -> Any:
        find()
        from waltally_jobs.data_source.change_log import Stream

        made = Stream.__new__(Stream)
        made.__dict__.update(pickle.loads(state))
        return made

    def source(options: MutableMapping[str, str], is_whole: bool = False) -> DataSource:
        find()
        import copyreg

        from waltally_jobs.data_source.change_log import ChangeLogSource, Stream

        # A task reads the stream's reader first, and then finds the classes of its partitions.
        copyreg.pickle(Stream, lambda reader: (stream, (pickle.dumps(reader.__dict__),)))
        made = ChangeLogSource(options)
        made.is_whole = is_whole
        return made

    class WithCode(DataSource):
        @classmethod
        def name(cls) -> str:
            return "waltally"

        is_whole = False

        def schema(self) -> StructType | str:
            # What is local here is pickled after this, with what it has noted.
            self.is_whole = True
            return source(self.options).schema()

        def reader(self, schema: StructType) -> DataSourceReader:
            return source(self.options).reader(schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return source(self.options, self.is_whole).streamReader(schema)

    return WithCode


register(SparkSession.builder.getOrCreate())
