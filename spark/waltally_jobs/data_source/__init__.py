"""The change log as a data source of Spark: the format `waltally`."""
