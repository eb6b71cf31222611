"""Functions from Arrow batches to Arrow batches as Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
from pyspark.util import PythonEvalType


def map_batches(
    frame: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], ddl: str
) -> DataFrame:
    """Return what `task` makes of the batches of each partition, with the columns of `ddl`.

    As DataFrame.mapInArrow, which also asks for pandas and does not use it.
    """
    mapped = vectorized_udf(
        task, returnType=ddl, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF, kind="pandas"
    )(*frame.columns)
    return DataFrame(frame._jdf.mapInArrow(mapped._jc, False, None), frame.sparkSession)
