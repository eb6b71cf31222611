"""The seed: counts of the rows that were there before the stream, exact at one WAL position."""
