"""The seed: counts the tables at one WAL position and stores the counts as the baseline."""
