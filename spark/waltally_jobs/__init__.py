"""The jobs that Spark runs: they move and add what PostgreSQL evaluates."""
