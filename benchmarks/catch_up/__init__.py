"""How long the loader needs after a stop."""
