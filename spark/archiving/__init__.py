"""The archive: change log and seeds as Parquet, each change once, whatever is killed."""
