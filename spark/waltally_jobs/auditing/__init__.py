"""The audit: compares the fact with a count of the tables, both at one WAL position."""
