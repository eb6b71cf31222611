"""Takes changes out of the log, in the one form that the database evaluates."""
