"""What a long seed does to the source: the WAL and the old row versions that it holds."""
