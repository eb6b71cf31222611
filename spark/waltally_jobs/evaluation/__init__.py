"""Has PostgreSQL evaluate the query of a model: the source over its tables, or the target."""
