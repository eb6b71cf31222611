"""Takes the baseline of a fact and stores it."""
