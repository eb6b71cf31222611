"""The archive: change log and baselines as Parquet, each change once, whatever is killed."""
