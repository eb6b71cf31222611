"""The audit: compares the model with a count of the tables, both at one WAL position."""
