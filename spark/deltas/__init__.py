"""The rules that turn changes into signed deltas, as Spark columns."""
