"""The audit: the fact against a count of the tables, both at exactly one WAL position."""
