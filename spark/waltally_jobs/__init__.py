"""What Spark does for models that are queries: it moves what PostgreSQL evaluates."""
