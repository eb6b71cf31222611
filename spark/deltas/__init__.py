"""The delta rules: raw changes to signed deltas, as Spark columns. Pure."""
